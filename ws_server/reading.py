"""What a client has written becomes segments, a little at a time and not far ahead of the voice."""

import math
import time
from collections.abc import Callable

from protocol.messages import Markup
from residency.dispatcher import Dispatcher
from ws_server.announcer import SAYABLE
from ws_server.heard import SpokenSegment
from ws_server.intake import End, Flush, Intake, Words
from ws_server.outgoing import FlushMark
from ws_server.plan import Plan
from ws_server.script import Script
from ws_server.tally import Tally
from ws_server.text import TextPath, unspoken_chars
from ws_server.text.segment import TextSegment
from ws_server.turns import Turns

READ_CHARS = 512
"""Read in one go, in a few milliseconds at the worst: a message can hold a hundred thousand, and the loop has others
to serve."""
MARK_CHARS = 32
"""What a flush counts as."""
AHEAD_SEGMENTS = 256
"""The rest stays text meanwhile: a segment takes a hundred times the memory of its characters."""


class Reading:
    """Lives on the event loop. Where it stops and goes on changes nothing of what is cut."""

    def __init__(
        self,
        plan: Plan,
        *,
        markup: Markup,
        script: Script,
        dispatcher: Dispatcher,
        tally: Tally,
        turns: Turns,
        on_cut: Callable[[TextSegment], None],
        on_turn: Callable[[], None],
    ) -> None:
        """`on_turn`: it has read on by itself."""
        self._plan = plan
        self._path = TextPath(plan.rules, markup=markup, language=plan.language)
        self._intake = Intake()
        self._script = script
        self._dispatcher = dispatcher
        self._tally = tally
        self._turns = turns
        self._on_cut = on_cut
        self._on_turn = on_turn
        self._has_asked = False
        self._closed = False
        self._uncut_since_s = math.inf
        """Arrival of the first text that isn't cut yet."""
        self._forced_at_chars = -1
        """The text's length when a cut was last forced: without new text another try finds nothing."""

    @property
    def chars(self) -> int:
        """Of all that was written."""
        return self._path.chars + self._intake.chars

    @property
    def unread(self) -> bool:
        return bool(self._intake)

    @property
    def wants_turn(self) -> bool:
        """It will read on in one of the loop's next rounds."""
        return self._has_asked

    @property
    def pending(self) -> bool:
        """Whether there is speakable text that hasn't been cut; meaningful while nothing is unread."""
        return self._path.pending

    def write(self, text: str, now_s: float) -> None:
        self._intake.write(text, now_s)
        self.go_on()

    def flush(self, mark: str | int | None, now_s: float) -> None:
        self._intake.put(Flush(mark, now_s))
        self.go_on()

    def end(self, now_s: float) -> None:
        self._intake.put(End(now_s))
        self.go_on()

    def close(self) -> None:
        """Nothing is read any more."""
        self._closed = True

    def go_on(self) -> None:
        """Read on if there is room for it in the script; a little at once, as it mostly is, and more in turns."""
        if self._has_asked or self._closed:
            return
        left_chars = READ_CHARS
        while self._intake and left_chars > 0 and len(self._script) < AHEAD_SEGMENTS:
            left_chars -= self._read(left_chars)
        if self._intake and len(self._script) < AHEAD_SEGMENTS:
            self._has_asked = True
            self._turns.ask(self._take_turn)
        if not self._intake:
            self._grow()

    def _take_turn(self) -> None:
        self._has_asked = False
        if not self._closed:
            self.go_on()
            self._on_turn()

    def _read(self, max_chars: int) -> int:
        self._limit_steps()
        match self._intake.take(max_chars):
            case Words(text, arrived_s):
                self._submit(self._path.feed(text), arrived_s)
                return len(text)
            case Flush(mark, arrived_s):
                self._submit(self._path.flush(), arrived_s)
                self._script.add_mark(FlushMark(mark))
            case End(arrived_s):
                self._submit(self._path.end(), arrived_s)
                self._tally.whole = True
                self._script.finish()
        return MARK_CHARS

    # Cuts that time makes; only while nothing is unread ---------------------------------------------------------

    def silence_deadline_ms(self) -> float | None:
        return self._path.silence_deadline_ms()

    def silence(self, gap_ms: float, now_s: float) -> None:
        self._submit(self._path.silence(gap_ms), now_s)
        self._grow()

    @property
    def can_force(self) -> bool:
        return self._path.pending and self._forced_at_chars != self._path.chars

    def force(self, in_hand_s: float, now_s: float) -> None:
        """The listener runs dry in so long: the piece that can be made until then, if there is a sensible one."""
        self._forced_at_chars = self._path.chars
        segment = self._path.force(self._fitting_chars(in_hand_s))
        if segment is not None:
            self._submit([segment], now_s)
            self._grow()

    # Inside ---------------------------------------------------------------------------------------------------

    def _limit_steps(self) -> None:
        """Where a step makes a whole segment, none may hold the others up for too long."""
        if self._plan.facts.step_s is None and not self._plan.facts.grows:
            crowded = self._dispatcher.crowded
            self._path.limit(self._fitting_chars(self._dispatcher.max_step_s) if crowded else None)

    def _fitting_chars(self, within_s: float) -> int:
        """The most text whose first step is estimated to be over in time; at least a first piece."""
        rules, unit = self._plan.rules, self._plan.unit
        chars = rules.max_chars
        while chars > rules.first_chars and self._dispatcher.estimate_step_s(unit, chars) > within_s:
            chars //= 2
        return max(chars, rules.first_chars)

    def _grow(self) -> None:
        """Have words spoken whose segment isn't complete, where the engine can."""
        if not self._plan.facts.grows or self._closed or not self._script.may_grow:
            return
        known = self._path.growth()
        if known is None:
            return
        unspoken = unspoken_chars(known.speakable, self._plan.scripts)
        if unspoken and len(SAYABLE.findall(known.speakable)) == unspoken:
            return
        now_s = time.monotonic()
        if self._tally.certain_s is None:
            self._tally.certain_s = min(self._uncut_since_s, now_s)
            self._tally.cut_s = now_s
        self._script.grow(known, self._spoken(known, now_s), now_s)
        self._uncut_since_s = math.inf
        self._script.advance(now_s)

    def _spoken(self, segment: TextSegment, now_s: float) -> SpokenSegment:
        return SpokenSegment(
            segment.start_char, segment.end_char, text_s=min(self._uncut_since_s, now_s), cut_s=now_s
        )

    def _submit(self, segments: list[TextSegment], arrived_s: float) -> None:
        for segment in segments:
            unspoken = unspoken_chars(segment.speakable, self._plan.scripts)
            self._tally.unspoken_chars += unspoken
            if unspoken and len(SAYABLE.findall(segment.speakable)) == unspoken:
                continue
            now_s = time.monotonic()
            if self._tally.certain_s is None:
                self._tally.certain_s = arrived_s
                self._tally.cut_s = now_s
            if segment.cut == "forced":
                self._tally.forced_cuts += 1
            self._tally.segments += 1
            self._script.add(segment, self._spoken(segment, now_s), now_s)
            self._on_cut(segment)
        if segments:
            self._uncut_since_s = math.inf
            self._script.advance(time.monotonic())
        if self._path.pending:
            self._uncut_since_s = min(self._uncut_since_s, arrived_s)
