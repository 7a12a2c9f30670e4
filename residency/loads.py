"""What is loaded where, what should be, and what couldn't be."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from engines.contract import EngineUnavailable
from residency.lane_state import LaneState
from residency.units import UnitState

PATIENCE_S = 2.0
"""A unit that isn't loaded anywhere waits this long for listeners of those that are."""
RELOAD_S = 30.0
"""A unit that couldn't be loaded isn't tried again before."""
LIVED_S = 60.0
"""A model that was lost after less is loaded again later each time."""
MOST_BACKOFF_S = 60.0


@dataclass(frozen=True, slots=True)
class Failure:
    error: EngineUnavailable
    until_s: float
    """It isn't tried again before."""


class Loads:
    """Of one device; pure. `governed`: what may be loaded, and what is to leave, is decided by a planner."""

    def __init__(
        self,
        lanes: Sequence[LaneState],
        preload: Iterable[str],
        *,
        governed: bool,
        remote: Iterable[str] = (),
    ) -> None:
        """`remote`: units whose files may have to be brought here before they are loaded."""
        self._lanes = lanes
        self._remote = frozenset(remote)
        self._unfetched = set(self._remote)
        self._fetching: set[str] = set()
        self._pinned: set[str] = set()
        self._governed = governed
        self._granted: set[str] = set()
        self.leaving: frozenset[str] = frozenset()
        self._asked_s: dict[str, float] = dict.fromkeys(preload, -inf)
        """What every lane of the device has to load, and since when."""
        self._waiting: Counter[str] = Counter()
        self._waiting_since_s: dict[str, float] = {}
        self._failures: dict[str, Failure] = {}
        self._losses: Counter[str] = Counter()
        self.loaded_s: dict[str, float] = {}
        self.load_s: dict[str, float] = {}
        """What the last load took."""
        self.used_s: dict[str, float] = {}
        """The end of the last work."""
        self.stale = True
        """The planner has to look again."""

    # What is

    def here(self, unit: str) -> bool:
        return any(unit in lane.loaded for lane in self._lanes)

    def loading(self, unit: str) -> bool:
        return any(lane.loading == unit for lane in self._lanes)

    def unloading(self, unit: str) -> bool:
        return any(lane.unloading == unit for lane in self._lanes)

    def state(self, unit: str) -> UnitState:
        if self.unloading(unit) or (self.here(unit) and unit in self.leaving):
            return "draining"
        if self.here(unit):
            return "ready"
        if self.loading(unit) or unit in self._fetching:
            return "loading"
        return "failed" if unit in self._failures else "unloaded"

    def proved_s(self, unit: str) -> float | None:
        """When every lane's model had spoken last; None: none is loaded."""
        return min((lane.proved_s[unit] for lane in self._lanes if unit in lane.loaded), default=None)

    def settled(self, unit: str) -> bool:
        """Every lane has loaded it, or it can't be."""
        return unit in self._failures or all(unit in lane.loaded or lane.stalled for lane in self._lanes)

    def failure(self, unit: str) -> EngineUnavailable | None:
        failure = self._failures.get(unit)
        return None if failure is None else failure.error

    def barred(self, unit: str, now_s: float) -> bool:
        failure = self._failures.get(unit)
        return failure is not None and now_s < failure.until_s

    def refusal(self, unit: str, now_s: float) -> EngineUnavailable | None:
        """Why there is no sense in waiting for it."""
        return self.failure(unit) if self.barred(unit, now_s) and self.state(unit) == "failed" else None

    def pending(self, unit: str) -> bool:
        """No lane has begun to load it, but one may at any moment."""
        return unit in self._granted and not self.here(unit) and not self.loading(unit)

    def withdraw(self, unit: str) -> None:
        """Nobody wants it any more."""
        self._granted.discard(unit)

    def wanted_s(self, unit: str) -> float | None:
        """Since when; None: nobody wants it."""
        since_s = [self._asked_s[unit]] if unit in self._asked_s else []
        if self._waiting[unit]:
            since_s.append(self._waiting_since_s[unit])
        return min(since_s, default=None)

    # What happens

    def pin(self, unit: str) -> None:
        """It will be loaded without being asked for."""
        self._pinned.add(unit)

    def begin_fetches(self, now_s: float) -> list[str]:
        """Those whose files somebody has to bring here now, and to tell of it by `finish_fetch`."""
        waited_for = (unit for unit, waiting in self._waiting.items() if waiting)
        wanted = {*self._pinned, *self._asked_s, *waited_for} - self.leaving
        due = sorted(unit for unit in wanted & self._unfetched if not self.barred(unit, now_s))
        self._unfetched.difference_update(due)
        self._fetching.update(due)
        return due

    def finish_fetch(self, unit: str, error: Exception | None, now_s: float) -> None:
        self.stale = True
        self._fetching.discard(unit)
        if error is not None:
            self._fail_to_load(unit, error, now_s)

    def ask_for(self, unit: str, now_s: float) -> None:
        """Have every lane load it, once more if that has failed."""
        self._failures.pop(unit, None)
        self._asked_s.setdefault(unit, now_s)
        self.stale = True

    def waits(self, unit: str, by: int, now_s: float) -> None:
        """So many more listeners have something for it to do."""
        if by > 0 and not self._waiting[unit]:
            self._waiting_since_s[unit] = now_s
            self.stale = self.stale or not self.here(unit)
        self._waiting[unit] += by
        self.stale = self.stale or (by < 0 and not self._waiting[unit] and self._governed)

    def direct(self, *, load: Iterable[str], leave: Iterable[str]) -> None:
        """What the planner has decided; who leaves isn't asked for any more."""
        self.leaving = frozenset(leave)
        self._granted.update(load)
        self._granted.difference_update(self.leaving)
        for unit in self.leaving:
            self._asked_s.pop(unit, None)

    def finish(
        self, lane: LaneState, unit: str, error: Exception | None, now_s: float, *, load_s: float = 0.0
    ) -> None:
        self.stale = True
        if error is None:
            lane.loaded.add(unit)
            lane.proved_s[unit] = now_s
            self._failures.pop(unit, None)
            self.loaded_s[unit] = self.used_s[unit] = now_s
            self.load_s[unit] = load_s
        else:
            self._fail_to_load(unit, error, now_s)

    def _fail_to_load(self, unit: str, error: Exception, now_s: float) -> None:
        if unit in self._remote and not self.here(unit):
            # Perhaps for want of them: they are looked for again.
            self._unfetched.add(unit)
        if not isinstance(error, EngineUnavailable):
            error = EngineUnavailable(f"{unit} couldn't be loaded: {_told(error)}")
        self.fail(unit, error, now_s + RELOAD_S)

    def fail(self, unit: str, error: EngineUnavailable, until_s: float) -> None:
        self._failures[unit] = Failure(error, until_s)
        self._granted.discard(unit)

    def lose(self, lane: LaneState, unit: str, error: Exception, now_s: float) -> None:
        """Its model is gone. The first time it is loaded again at once, then later and later."""
        lane.forget(unit)
        self._granted.discard(unit)
        self.stale = True
        lived_s = now_s - self.loaded_s.get(unit, now_s)
        self._losses[unit] = 1 if lived_s >= LIVED_S else self._losses[unit] + 1
        if (count := self._losses[unit]) > 1:
            failure = EngineUnavailable(f"{unit} was lost {count} times: {_told(error)}")
            self.fail(unit, failure, now_s + min(2.0 ** (count - 1), MOST_BACKOFF_S))

    def finish_unload(self, lane: LaneState, unit: str, now_s: float) -> None:
        lane.forget(unit)
        self.stale = True
        if not self.here(unit):
            self._granted.discard(unit)
            self._waiting_since_s[unit] = now_s

    # What a lane should do

    def due(self, lane: LaneState, now_s: float, *, idle: bool) -> str | None:
        """What the lane should load now: what is to be there from the start, else what listeners wait for."""
        for unit in self._asked_s:
            if unit not in lane.loaded and self._may_load(unit, now_s):
                return unit
        for unit, waiting in self._waiting.items():
            if not waiting or unit in lane.loaded or self.loading(unit) or not self._may_load(unit, now_s):
                continue
            if self.here(unit):
                # Another lane serves it already: a second model is for those with nothing else to do.
                if idle and unit not in self._failures:
                    return unit
            elif idle or now_s - self._waiting_since_s[unit] >= PATIENCE_S:
                return unit
        if idle:
            for unit in self._granted:
                if not self.here(unit) and not self.loading(unit) and self.fetched(unit):
                    return unit
        return None

    def leaver(self, lane: LaneState) -> str | None:
        """What the lane should unload now."""
        return next((unit for unit in self.leaving if unit in lane.loaded and not lane.open_of(unit)), None)

    def _may_load(self, unit: str, now_s: float) -> bool:
        return self.fetched(unit) and self._may(unit, now_s)

    def fetched(self, unit: str) -> bool:
        """Nothing has to be brought here before it is loaded."""
        return unit not in self._unfetched and unit not in self._fetching

    def _may(self, unit: str, now_s: float) -> bool:
        if self.barred(unit, now_s) or unit in self.leaving:
            return False
        return not self._governed or unit in self._granted


def _told(error: Exception) -> str:
    return str(error) or type(error).__name__
