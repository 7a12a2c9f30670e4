"""One utterance: text in, cut into jobs, chunks out in order, exactly one `done`."""

import math
import time

from engines.contract import Samples, Word
from pcm_cache.cache import PcmCache
from protocol import messages as wire
from protocol.errors import make_error
from protocol.limits import LONGEST_WAIT_MS, Limits
from residency.dispatcher import Dispatcher
from residency.listener import Listener, ListenerSpec, StepTiming
from ws_server.alarm import Alarm
from ws_server.announcer import Announcer
from ws_server.audio.framer import Framer
from ws_server.errors import error_of
from ws_server.heard import Recording
from ws_server.outgoing import Ending, Outgoing
from ws_server.owner import Owner
from ws_server.plan import Plan
from ws_server.reading import Reading
from ws_server.script import Script
from ws_server.tally import Tally, gap_cause
from ws_server.text.segment import TextSegment
from ws_server.turns import Turns

_FORCE_MARGIN_S = 0.15
"""How long before the listener runs dry a cut is forced: a step's jitter, and the way to the socket."""
_RENDERED_AHEAD_S = 20.0
"""A rendering has no lead that would hold it up. Its client can read slowly without ever being blocked for long, and
an engine is fast: so much waits to be sent, and no more."""


class Utterance:
    """Lives on the event loop. Its owner takes what it has to send from `outgoing`."""

    def __init__(
        self,
        opened: wire.Open,
        plan: Plan,
        *,
        dispatcher: Dispatcher,
        cache: PcmCache,
        turns: Turns,
        limits: Limits,
        owner: Owner,
        client: str,
        connection: str,
        replaces: Listener | None,
        blocked: bool,
        now_s: float,
    ) -> None:
        self.id = opened.id
        self.plan = plan
        self.opened = opened
        self.tally = Tally(now_s)
        self.ending = False
        """True once its `done` is on the way: nothing changes it any more, except that `complete` can still
        become something worse until it is sent."""
        self.reason: wire.DoneReason | None = None
        self.error: wire.Error | None = None
        self.outgoing = Outgoing(
            opened.id,
            Framer(
                engine_rate_hz=plan.facts.sample_rate_hz,
                output_rate_hz=plan.sample_rate_hz,
                format=plan.format,
                frame_ms=opened.frame_ms,
            ),
            slice_samples=plan.facts.sample_rate_hz // 5,
        )
        lead_ms = limits.lead_ms_default if opened.lead_ms is None else opened.lead_ms
        self.lead_s = math.inf if lead_ms == 0 else min(lead_ms, limits.lead_ms) / 1000
        cushion_ms = limits.cushion_ms if opened.cushion_ms is None else opened.cushion_ms
        self._cushion_s = min(cushion_ms, LONGEST_WAIT_MS) / 1000
        self._dispatcher = dispatcher
        self._limits = limits
        self._owner = owner
        self.listener = dispatcher.open(
            ListenerSpec(
                unit=plan.unit,
                lead_s=self.lead_s,
                cushion_s=self._cushion_s,
                speed=plan.speed,
                clone=plan.clone,
                client=client,
                connection=connection,
            ),
            self,
            replaces=replaces,
        )
        self._blocked = blocked
        self._is_far_ahead = False
        self.listener.set_blocked(blocked)
        self.recording = Recording(
            self.listener.clock, plan.sample_rate_hz, exact_words=plan.facts.exact_words
        )
        self._ended = False
        self._announcer = Announcer(opened, plan, self.outgoing, self.recording)
        self._script = Script(
            plan,
            listener=self.listener,
            dispatcher=dispatcher,
            cache=cache if opened.cache and cache.enabled else None,
            announcer=self._announcer,
            outgoing=self.outgoing,
            tally=self.tally,
            on_read=self._on_read,
        )
        self._reading = Reading(
            plan,
            markup=opened.markup,
            script=self._script,
            dispatcher=dispatcher,
            tally=self.tally,
            turns=turns,
            on_cut=self._on_cut,
            on_turn=self._on_read,
        )
        self._last_text_s = now_s
        self._last_message_s = now_s
        self._alarm = Alarm(self._on_timer)
        self._arm(now_s)

    # What the client says ---------------------------------------------------------------------------------

    @property
    def chars(self) -> int:
        return self._reading.chars

    @property
    def is_reading(self) -> bool:
        """Text that is there is still being cut."""
        return self._reading.wants_turn

    def feed(self, increment: str, now_s: float) -> None:
        if self._ended or self.ending:
            return
        self._last_text_s = self._last_message_s = now_s
        if self.chars + len(increment) > self.plan.total_chars:
            fault = f"this utterance has at most {self.plan.total_chars} characters"
            self.fail(
                make_error("text_too_long", fault, id=self.id, param="text", value=self.plan.total_chars),
                now_s,
            )
            return
        self._reading.write(increment, now_s)
        self._arm(now_s)

    def flush(self, mark: str | int | None, now_s: float) -> None:
        if self._ended or self.ending:
            return
        self._last_message_s = now_s
        self._reading.flush(mark, now_s)
        self._settle(now_s)

    def end(self, now_s: float) -> None:
        if self._ended or self.ending:
            return
        self._ended = True
        self._reading.end(now_s)
        self._settle(now_s)

    def played(self, played_ms: float, *, paused: bool, now_s: float) -> None:
        self._last_message_s = now_s
        self.listener.played(played_ms / 1000, paused, now_s)
        self._arm(now_s)
        self._owner.changed()

    def stop(self, reason: wire.DoneReason, played_ms: float | None, now_s: float) -> None:
        """Cancelled or replaced: `done` at once, with what was heard."""
        if self.reason not in (None, "complete"):
            return
        heard = self.heard(played_ms, now_s)
        self._finish(reason, now_s, heard=heard)

    def fail(self, error: wire.Error, now_s: float, *, heard: bool = False) -> None:
        if self.reason not in (None, "complete"):
            return
        self.error = error
        reason: wire.DoneReason = "timeout" if error.code == "idle_timeout" else "failed"
        self._finish(reason, now_s, heard=self.heard(None, now_s) if heard else None, error=error)

    def heard(self, played_ms: float | None, now_s: float) -> wire.HeardText:
        complete = self.outgoing.taken_samples if self.reason == "complete" else None
        return self.recording.heard(played_ms, now_s, complete, self.chars)

    @property
    def waits_in_queue(self) -> bool:
        return self.tally.queued_since_s is not None

    # What the device says -----------------------------------------------------------------------------------

    def on_chunk(
        self, job: int, samples: Samples, words: tuple[Word, ...], last: bool, timing: StepTiming
    ) -> None:
        if self.ending:
            return
        self.tally.steps(timing.started_s, timing.ended_s, sound=bool(len(samples)))
        self.tally.compute_s += timing.compute_s
        self._script.made(job, samples, words, last=last, timing=timing)
        self._owner.stepped(self, timing, len(samples) / self.plan.facts.sample_rate_hz)
        self._hold_up_rendering()
        if last:
            self._settle(timing.ended_s)
        self._owner.changed()

    def on_failed(self, job: int, error: Exception) -> None:
        del job
        self.fail(error_of(error, self.id), time.monotonic())

    def on_refused(self, error: Exception) -> None:
        self.fail(error_of(error, self.id), time.monotonic())

    def on_waiting(self, reason: str, position: int | None, wait_s: float | None) -> None:
        if self.ending:
            return
        self.tally.waits(time.monotonic())
        if self._announcer.started:
            # The wire's `queued` comes before `started`: who waits in mid-speech has a gap at the most.
            return
        self.outgoing.put_queued(
            wire.Queued(
                id=self.id,
                reason="loading" if reason == "loading" else "busy",
                position=position,
                wait_ms=None if wait_s is None else round(wait_s * 1000),
            )
        )
        self._owner.changed()

    def _on_read(self) -> None:
        if not self.ending:
            self._settle(time.monotonic())

    # What the socket says ------------------------------------------------------------------------------------

    def sent(self, audio: wire.Audio, now_s: float) -> None:
        """`audio` is in the kernel's hands."""
        first = self.tally.first_sent_s is None
        if first:
            self.tally.first_sent_s = now_s
        audio_s = self.outgoing.taken_samples / self.plan.sample_rate_hz
        gap = self.listener.sent(audio_s - self.listener.clock.sent_s, now_s)
        if first or gap is not None:
            # Only now is it known when the listener will run dry.
            self._arm(now_s)
        if gap is not None:
            cause = gap_cause(self.recording.segment_at(audio.at_sample), gap.from_s)
            if cause is not None:
                self.tally.gaps[cause].append(gap.length_s)
        self._hold_up_rendering()
        if self._script.wants_room:
            self._settle(now_s)

    def set_blocked(self, blocked: bool) -> None:
        """The client takes nothing."""
        self._blocked = blocked
        self.listener.set_blocked(blocked or self._is_far_ahead)

    def _hold_up_rendering(self) -> None:
        if self.lead_s == math.inf:
            most_s = _RENDERED_AHEAD_S / 2 if self._is_far_ahead else _RENDERED_AHEAD_S
            self._is_far_ahead = self._script.waiting_s > most_s
            self.set_blocked(self._blocked)

    def may_send_at_s(self, now_s: float) -> float:
        """When the next frame may go out: its lead has room, or nothing is in hand."""
        if self.lead_s == math.inf:
            return now_s
        clock = self.listener.clock
        room_s = max(self.lead_s - 0.1, 0.0)
        over_s = clock.in_hand_s(now_s) - room_s
        if over_s <= 0:
            return now_s
        return math.inf if clock.paused else now_s + over_s

    # Inside ------------------------------------------------------------------------------------------------

    def _on_cut(self, segment: TextSegment) -> None:
        self._owner.cut(self, segment)
        self._owner.changed()

    def _settle(self, now_s: float) -> None:
        """Let out what is stored, the marks whose text is all said, and the end after them."""
        self._script.advance(now_s)
        self._reading.go_on()
        if self.tally.whole and not self._script and not self.ending:
            if not self._announcer.started and self.tally.unspoken_chars:
                message = "the voice's engine speaks none of the text's letters"
                self.fail(make_error("unsupported_language", message, id=self.id), now_s)
                return
            self._finish("complete", now_s)
        self._arm(now_s)
        self._owner.changed()

    def _finish(
        self,
        reason: wire.DoneReason,
        now_s: float,
        *,
        heard: wire.HeardText | None = None,
        error: wire.Error | None = None,
    ) -> None:
        self.ending = True
        self.reason = reason
        if reason == "complete":
            self.outgoing.put(Ending(lambda: self._done("complete", None, time.monotonic())))
        else:
            self.release()
            self.outgoing.drop_all()
            done = self._done(reason, heard, now_s)
            self._owner.finished(self, [done] if error is None else [error, done])
            return
        self._alarm.stop()
        self._owner.changed()

    def _done(self, reason: wire.DoneReason, heard: wire.HeardText | None, now_s: float) -> wire.Done:
        samples = self.outgoing.taken_samples
        return wire.Done(
            id=self.id,
            tag=self.opened.tag,
            reason=reason,
            samples=samples,
            chars=self.chars,
            heard=heard,
            stats=self.stats(now_s),
        )

    def stats(self, now_s: float) -> wire.Stats:
        return self.tally.stats(self.outgoing.taken_samples / self.plan.sample_rate_hz, now_s)

    def release(self) -> None:
        """Its `done` has been sent, or its connection is gone. Idempotent."""
        self._alarm.stop()
        self._reading.close()
        self.ending = True
        self._dispatcher.close(self.listener)

    # Time --------------------------------------------------------------------------------------------------

    def _due_s(self, now_s: float) -> float:
        if self.ending or self._ended or self._reading.unread:
            return math.inf
        due_s = math.inf
        silence_ms = self._reading.silence_deadline_ms()
        if silence_ms is not None:
            due_s = self._last_text_s + silence_ms / 1000
        if self._script.may_grow:
            due_s = min(due_s, self._force_at_s(now_s))
        if not self._script:
            due_s = min(due_s, self._idle_at_s(now_s))
        return due_s

    def _force_at_s(self, now_s: float) -> float:
        """When the text at hand must be cut, lest the listener run dry."""
        if not self._reading.can_force or self.listener.clock.sent_s == 0:
            return math.inf
        step_s = self._dispatcher.estimate_step_s(self.plan.unit, self.plan.rules.first_chars)
        return self.listener.run_dry_s(now_s) - step_s - _FORCE_MARGIN_S

    def _idle_at_s(self, now_s: float) -> float:
        """Idleness begins when all has been heard; a pause isn't idle."""
        if self._reading.pending or self.listener.clock.paused:
            return math.inf
        since_s = self._last_message_s
        if self._announcer.started:
            since_s = max(since_s, self.listener.run_dry_s(now_s))
        return since_s + self._limits.utterance_idle_s

    def _arm(self, now_s: float) -> None:
        self._alarm.set(self._due_s(now_s), now_s)

    def _on_timer(self) -> None:
        now_s = time.monotonic()
        if self.ending or self._ended or self._reading.unread:
            return
        self._reading.silence((now_s - self._last_text_s) * 1000, now_s)
        if self._script.may_grow and now_s >= self._force_at_s(now_s):
            self._reading.force(max(self.listener.run_dry_s(now_s) - now_s, 0.0), now_s)
        if not self._script and now_s >= self._idle_at_s(now_s):
            self.fail(
                make_error("idle_timeout", "no text came and nothing was left to say", id=self.id), now_s
            )
            return
        self._arm(now_s)
