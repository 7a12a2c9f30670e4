"""What is loaded where, what should be, and what couldn't be."""

from collections import Counter
from collections.abc import Iterable, Sequence

from engines.contract import EngineUnavailable
from residency.lane_state import LaneState
from residency.units import UnitState

PATIENCE_S = 2.0
"""A unit that isn't loaded anywhere waits this long for listeners of those that are."""
RELOAD_S = 30.0
"""A unit that couldn't be loaded isn't tried again before."""


class Loads:
    """Of one device; pure."""

    def __init__(self, lanes: Sequence[LaneState], preload: Iterable[str]) -> None:
        self._lanes = lanes
        self._preload = list(preload)
        self._waiting: Counter[str] = Counter()
        self._waiting_since_s: dict[str, float] = {}
        self._failures: dict[str, tuple[EngineUnavailable, float]] = {}

    def state(self, unit: str) -> UnitState:
        if any(unit in lane.loaded for lane in self._lanes):
            return "ready"
        if any(lane.loading == unit for lane in self._lanes):
            return "loading"
        return "failed" if unit in self._failures else "unloaded"

    def settled(self, unit: str) -> bool:
        """Every lane has loaded it, or it can't be."""
        return unit in self._failures or all(unit in lane.loaded or lane.stalled for lane in self._lanes)

    def ask_for(self, unit: str) -> None:
        """Have every lane load it, once more if that has failed."""
        self._failures.pop(unit, None)
        if unit not in self._preload:
            self._preload.append(unit)

    def failure(self, unit: str) -> EngineUnavailable | None:
        failure = self._failures.get(unit)
        return None if failure is None else failure[0]

    def refusal(self, unit: str, now_s: float) -> EngineUnavailable | None:
        """Why there is no sense in waiting for it."""
        failure = self._failures.get(unit)
        if failure is None or self.state(unit) != "failed" or now_s - failure[1] >= RELOAD_S:
            return None
        return failure[0]

    def waits(self, unit: str, by: int, now_s: float) -> None:
        """So many more listeners have something for it to do."""
        if by > 0 and not self._waiting[unit]:
            self._waiting_since_s[unit] = now_s
        self._waiting[unit] += by

    def finish(self, lane: LaneState, unit: str, error: Exception | None, now_s: float) -> None:
        if error is None:
            lane.loaded.add(unit)
            self._failures.pop(unit, None)
            return
        if not isinstance(error, EngineUnavailable):
            error = EngineUnavailable(f"{unit} couldn't be loaded: {str(error) or type(error).__name__}")
        self._failures[unit] = (error, now_s)

    def due(self, lane: LaneState, now_s: float, *, idle: bool) -> str | None:
        """What the lane should load now: what is to be there from the start, else what listeners wait for."""
        for unit in self._preload:
            if unit not in lane.loaded and unit not in self._failures:
                return unit
        for unit, waiting in self._waiting.items():
            if not waiting or unit in lane.loaded or any(one.loading == unit for one in self._lanes):
                continue
            if self.state(unit) == "ready":
                # Another lane serves it already: a second model is for those with nothing else to do.
                if idle and unit not in self._failures:
                    return unit
            elif idle or now_s - self._waiting_since_s[unit] >= PATIENCE_S:
                return unit
        return None
