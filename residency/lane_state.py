"""What is known of one lane outside its thread."""

from collections import Counter
from collections.abc import Container, Mapping
from math import inf
from typing import TypeVar

from residency.listener import Job
from residency.scheduler import Room
from residency.units import Unit
from residency.work import Closing, Load, Step, Task, Unload

T = TypeVar("T", bound=Task)


class LaneState:
    def __init__(self, number: int, units: Mapping[str, Unit]) -> None:
        self.number = number
        self._units = units
        self._open: Counter[str] = Counter()
        self._closings: list[Closing] = []
        self.loaded: set[str] = set()
        self.proved_s: dict[str, float] = {}
        """When each of them last spoke."""
        self.task: Task | None = None
        self.started_s = 0.0
        self.deadline_s = inf
        """Of the task in progress."""
        self.stalled = False
        self.stepped_s = 0.0
        """When its last step ended."""
        self.most_open = 0
        """Streams at once since it last gave memory back."""

    @property
    def busy(self) -> bool:
        return self.task is not None

    @property
    def step(self) -> Step | None:
        return self.task if isinstance(self.task, Step) else None

    @property
    def loading(self) -> str | None:
        return self.task.unit if isinstance(self.task, Load) else None

    @property
    def unloading(self) -> str | None:
        return self.task.unit if isinstance(self.task, Unload) else None

    @property
    def open_streams(self) -> int:
        """Those that are to be closed before the next step included."""
        return sum(self._open.values()) + len(self._closings)

    def open_of(self, unit: str) -> int:
        return self._open[unit]

    def rooms(self, leaving: Container[str] = ()) -> dict[str, Room]:
        rooms = {}
        for name in self.loaded:
            facts = self._units[name].facts
            rooms[name] = Room(facts.max_open - self._open[name], facts.max_batch, name in leaving)
        return rooms

    def forget(self, unit: str) -> None:
        """Its model is gone, and every stream with it."""
        self.loaded.discard(unit)
        self._open.pop(unit, None)
        self._closings = [closing for closing in self._closings if closing.unit != unit]

    def opening(self, unit: str) -> None:
        self._open[unit] += 1
        self.most_open = max(self.most_open, self._open.total())

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

    def begin(self, task: T, now_s: float, within_s: float) -> T:
        self.task = task
        self.started_s = now_s
        self.deadline_s = now_s + within_s
        return task

    def finish(self) -> None:
        self.task = None
        self.deadline_s = inf
        self.stalled = False
