"""What is known of one lane outside its thread."""

from collections import Counter
from collections.abc import Mapping
from math import inf

from residency.listener import Job
from residency.scheduler import Room
from residency.units import Unit
from residency.work import Closing, Step


class LaneState:
    def __init__(self, number: int, units: Mapping[str, Unit]) -> None:
        self.number = number
        self._units = units
        self._open: Counter[str] = Counter()
        self._closings: list[Closing] = []
        self.loaded: set[str] = set()
        self.loading: str | None = None
        self.step: Step | None = None
        self.started_s = 0.0
        self.deadline_s = inf
        """Of the step or load in progress."""
        self.stalled = False

    @property
    def busy(self) -> bool:
        return self.step is not None or self.loading is not None

    @property
    def open_streams(self) -> int:
        """Those that are to be closed before the next step included."""
        return sum(self._open.values()) + len(self._closings)

    def rooms(self) -> dict[str, Room]:
        rooms = {}
        for name in self.loaded:
            facts = self._units[name].facts
            rooms[name] = Room(facts.max_open - self._open[name], facts.max_batch)
        return rooms

    def opening(self, unit: str) -> None:
        self._open[unit] += 1

    def close(self, unit: str, job: Job) -> None:
        """The stream is closed before the lane's next step; it makes no more audio."""
        self._open[unit] -= 1
        if job.stream is not None:
            self._closings.append(Closing(unit, job.stream))
            job.stream = None

    def take_closings(self) -> tuple[Closing, ...]:
        closings = tuple(self._closings)
        self._closings.clear()
        return closings

    def finish(self) -> None:
        self.step = None
        self.loading = None
        self.deadline_s = inf
        self.stalled = False
