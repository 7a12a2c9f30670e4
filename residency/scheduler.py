"""Whose turn it is on the device: earliest run-dry first.

Everything that can be runnable is in one of three classes.

- *Running*: a live listener with audio in hand. Its deadline is the moment at which it runs dry.
- *Silent*: a live listener with none, a newcomer or one that ran dry. Its deadline is the arrival of its cut
  (or of its slot) plus NEWCOMER_S, or the moment at which it ran dry. It goes first when its step fits the
  slack of every running one, or when its patience is over; else it waits.
- *Rendering*: no lead limit; runs only when nothing live can, the one with the least audio made first.

When steps on the near horizon can't all meet their deadlines, the running ones admitted last are given up
first (Moore and Hodgson's rule with the admission order in place of the length), and one that has run dry goes
before those admitted after it: those admitted earlier hear nothing of it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf

NEWCOMER_S = 0.15
"""A newcomer's first audio is due this long after the arrival of its first cut."""
PATIENCE_S = 2.0
"""No newcomer waits longer than this for running ones. Who ran dry in an overload may, for those admitted before
it."""
DRY_PATIENCE_S = 0.5
"""Nor does it wait longer than this for those admitted after it."""
HORIZON_S = 0.5
"""Only misses within this plus two of the longest steps count as overload: estimates err farther out."""


@dataclass(slots=True, eq=False, kw_only=True)
class Entry:
    """What the scheduler knows of a listener; the owner keeps it current.

    The event loop alone writes `origin_s`, `frozen_s`, `sent_s` and `blocked`, and no lock is needed to read
    them; the rest is kept under the lock of the lanes.
    """

    key: int
    unit: str
    lead_s: float
    """Infinite: a rendering."""
    order: int = 0
    """Of admission."""
    cut_s: float = 0.0
    """When the text of the current job was cut, or later its slot granted."""
    est_s: float = 0.0
    """The next step, as expected."""
    est_high_s: float = 0.0
    """The next step, as nine of ten take at most."""
    made_s: float = 0.0
    sent_s: float = 0.0
    origin_s: float | None = None
    """See PlayoutClock."""
    frozen_s: float | None = None
    assumed_origin_s: float = 0.0
    """Stands in for `origin_s` from the making of the first audio, or of the first after running dry, until some
    is sent: while `sent_s` is still `assumed_sent_s`."""
    assumed_sent_s: float = -1.0
    blocked: bool = False
    lane: int | None = None
    """Where its stream is open."""

    def dry_s(self) -> float | None:
        """The moment at which all that was made will have been played; None: nothing has been made."""
        if self.frozen_s is not None:
            return inf
        origin_s = self.assumed_origin_s if self.sent_s <= self.assumed_sent_s else self.origin_s
        return None if origin_s is None else origin_s + self.made_s

    def make(self, audio_s: float, now_s: float, cushion_s: float) -> None:
        """So much more has been made."""
        if audio_s <= 0:
            return
        dry_s = self.dry_s()
        if dry_s is None or dry_s < now_s:
            self.assumed_origin_s = now_s + cushion_s - self.made_s
            self.assumed_sent_s = self.sent_s
        self.made_s += audio_s


@dataclass(frozen=True, slots=True)
class Room:
    """What a loaded model can take."""

    free: int = 1 << 30
    """Streams that can still be opened."""
    max_batch: int = 1
    leaving: bool = False
    """No stream starts any more; the open ones are spoken to their end."""


@dataclass(frozen=True, slots=True)
class Pick:
    entries: tuple[Entry, ...]
    """One step's streams, of one unit; empty: nothing can run."""
    wake_s: float
    """If nothing can run: when the next lead falls under its limit, were nothing to change."""


Ranked = tuple[float, int, Entry, bool]
"""Deadline (for a rendering the audio made), admission order, and whether it can run now."""


@dataclass(slots=True)
class _Classes:
    """The entries that a lane could serve."""

    running: list[Ranked] = field(default_factory=list)
    silent: list[Ranked] = field(default_factory=list)
    rendering: list[Ranked] = field(default_factory=list)
    wake_s: float = inf

    def add(self, entry: Entry, dry_s: float, may_step: bool, now_s: float) -> None:
        if entry.lead_s == inf:
            if may_step:
                self.rendering.append((entry.made_s, entry.order, entry, True))
        elif dry_s > now_s and dry_s > entry.cut_s:
            if not entry.blocked:
                self.running.append((dry_s, entry.order, entry, may_step))
        elif may_step:
            self.silent.append((_due_s(entry, dry_s), entry.order, entry, True))


def pick(
    entries: Iterable[Entry], *, now_s: float, lane: int, rooms: Mapping[str, Room], lanes: int = 1
) -> Pick:
    """The step to make now on `lane`, where the models of `rooms` are loaded."""
    classes = _classify(entries, now_s, lane, rooms)
    first = _first_live(classes, now_s, lanes)
    if first is not None:
        return Pick(_batch(first, classes.silent + classes.running, rooms[first.unit]), now_s)
    if classes.rendering:
        first = min(classes.rendering)[2]
        return Pick(_batch(first, classes.rendering, rooms[first.unit]), now_s)
    return Pick((), classes.wake_s)


def _due_s(entry: Entry, dry_s: float) -> float:
    return dry_s if dry_s > entry.cut_s else entry.cut_s + NEWCOMER_S


def _classify(entries: Iterable[Entry], now_s: float, lane: int, rooms: Mapping[str, Room]) -> _Classes:
    # One flat loop, the usual case first: it runs over every listener before every step.
    classes = _Classes()
    running, wake_s = classes.running, inf
    open_in_full: list[tuple[Entry, float, bool]] = []
    wanting: dict[str, float] = {}
    for entry in entries:
        room = rooms.get(entry.unit)
        at = entry.lane
        if room is None or (at is not None and at != lane):
            continue
        made_s = entry.made_s
        origin_s = entry.assumed_origin_s if entry.sent_s <= entry.assumed_sent_s else entry.origin_s
        if entry.frozen_s is not None:
            dry_s = inf
            may_step = made_s - entry.frozen_s < entry.lead_s
        elif origin_s is None:
            dry_s = -inf
            may_step = True
        else:
            dry_s = origin_s + made_s
            free_s = dry_s - entry.lead_s
            may_step = free_s < now_s or made_s < entry.lead_s
            if not may_step and free_s < wake_s:
                wake_s = free_s
            if (
                dry_s > now_s
                and dry_s > entry.cut_s
                and room.free > 0
                and not room.leaving
                and free_s > -inf
                and not entry.blocked
            ):
                running.append((dry_s, entry.order, entry, may_step))
                continue
        may_step = may_step and not entry.blocked
        if room.leaving:
            if at is not None:
                # Another waits for its memory: whatever its own listener can take, it goes on to its end.
                classes.silent.append((now_s, entry.order, entry, True))
        elif room.free > 0:
            classes.add(entry, dry_s, may_step, now_s)
        elif at is not None:
            open_in_full.append((entry, dry_s, may_step))
        elif may_step:
            wanting[entry.unit] = min(_due_s(entry, dry_s), wanting.get(entry.unit, inf))
    classes.wake_s = wake_s
    for entry, dry_s, may_step in open_in_full:
        due_s = wanting.get(entry.unit)
        if due_s is None:
            classes.add(entry, dry_s, may_step, now_s)
        else:
            # It goes on when those that wait for its room would at the latest, whatever its own listener can
            # take: else one that has paused would shut out everybody else for ever.
            due_s = min(due_s, _due_s(entry, dry_s)) if may_step and entry.lead_s < inf else due_s
            classes.silent.append((due_s, entry.order, entry, True))
    return classes


def _first_live(classes: _Classes, now_s: float, lanes: int) -> Entry | None:
    silent = classes.silent
    silent.sort()
    for ranked in silent:
        if _newcomer(ranked) and ranked[2].cut_s + PATIENCE_S <= now_s:
            return ranked[2]
    kept, given_up = _keep(classes.running, now_s, lanes)
    if late := sorted(silent + given_up):
        slack_s = _slack_s(kept, now_s, lanes)
        for ranked in late:
            if ranked[2].est_high_s <= slack_s:
                return ranked[2]
        dry = [one for one in silent if one[0] + DRY_PATIENCE_S <= now_s and not _newcomer(one)]
        if (entry := _senior(dry + given_up, kept, now_s, lanes)) is not None:
            return entry
    for ranked in kept:
        if ranked[3]:
            return ranked[2]
    return late[0][2] if late else None


def _newcomer(silent: Ranked) -> bool:
    return silent[0] == silent[2].cut_s + NEWCOMER_S


def _senior(hit: list[Ranked], kept: list[Ranked], now_s: float, lanes: int) -> Entry | None:
    """Of those whom an overload has hit, the one admitted first, if only later ones stand in its way."""
    if not hit:
        return None
    _, order, entry, _ = min(hit, key=lambda ranked: ranked[1])
    earlier = [ranked for ranked in kept if ranked[1] < order]
    return entry if entry.est_s <= _slack_s(earlier, now_s, lanes) else None


def _keep(running: list[Ranked], now_s: float, lanes: int) -> tuple[list[Ranked], list[Ranked]]:
    """Those that can meet their deadlines, in the order of these, and the runnable ones that are given up."""
    running.sort()
    until_s, longest_s = now_s, 0.0
    by_admission: list[tuple[int, float, int]] = []
    given_up: set[int] = set()
    for index, (dry_s, order, entry, _) in enumerate(running):
        est_s = entry.est_s / lanes
        longest_s = max(longest_s, est_s)
        if dry_s > now_s + HORIZON_S + 2 * longest_s:
            break
        heappush(by_admission, (-order, est_s, index))
        until_s += est_s
        while until_s > dry_s and by_admission:
            _, est_s, dropped = heappop(by_admission)
            until_s -= est_s
            given_up.add(dropped)
    if not given_up:
        return running, []
    kept = [ranked for index, ranked in enumerate(running) if index not in given_up]
    return kept, [running[index] for index in sorted(given_up) if running[index][3]]


def _slack_s(kept: list[Ranked], now_s: float, lanes: int) -> float:
    """How long the device may do something else before one of these, served in order, would run dry."""
    slack_s = inf
    until_s = now_s
    for dry_s, _, entry, _ in kept:
        until_s += entry.est_s / lanes
        slack_s = min(slack_s, dry_s - until_s)
    return slack_s


def _batch(first: Entry, ranked: list[Ranked], room: Room) -> tuple[Entry, ...]:
    """More of the same model ride along, earliest first."""
    if room.max_batch == 1:
        return (first,)
    entries = [first]
    free = room.free - (first.lane is None)
    for _, _, entry, may_step in sorted(ranked):
        if len(entries) == room.max_batch:
            break
        if not may_step or entry is first or entry.unit != first.unit or (entry.lane is None and free <= 0):
            continue
        free -= entry.lane is None
        entries.append(entry)
    return tuple(entries)
