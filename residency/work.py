"""What a lane is told to do next, and what it tells of it."""

from dataclasses import dataclass
from typing import Any

from engines.contract import Chunk, Request
from residency.listener import Job, Listener
from voices.reference import Clone


@dataclass(frozen=True, slots=True)
class Growth:
    text: str
    last: bool


@dataclass(frozen=True, slots=True)
class Turn:
    listener: Listener
    job: Job
    request: Request
    """To start its stream with, if it isn't open."""
    growth: Growth | None = None
    """What has come since the stream was last told."""


def take_turn(listener: Listener) -> Turn:
    """Its current job's, with the text that has come."""
    job = listener.jobs[0]
    given, job.given = job.given, job.request
    if job.stream is None or given is None or given is job.request:
        return Turn(listener, job, job.request)
    growth = Growth(job.request.text[len(given.text) :], job.request.last)
    return Turn(listener, job, job.request, growth)


@dataclass(frozen=True, slots=True)
class Step:
    """Start the streams that aren't open, then advance all of them once."""

    unit: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Load:
    unit: str


@dataclass(frozen=True, slots=True)
class Unload:
    unit: str


@dataclass(frozen=True, slots=True)
class Canary:
    """Say something that nobody hears, to see that it still can."""

    unit: str


@dataclass(frozen=True, slots=True)
class Prepare:
    """Make an uploaded voice's prompt before somebody waits for it."""

    unit: str
    clone: Clone


@dataclass(frozen=True, slots=True)
class Tidy:
    """Give the system back the memory that a crowd needed, which has gone."""


@dataclass(frozen=True, slots=True)
class Rest:
    until_s: float
    """Infinite: until something changes."""


Task = Step | Load | Unload | Canary | Prepare | Tidy


@dataclass(frozen=True, slots=True)
class Closing:
    unit: str
    stream: Any


@dataclass(frozen=True, slots=True)
class Work:
    closings: tuple[Closing, ...]
    """Before the task."""
    task: Task | Rest


@dataclass(frozen=True, slots=True)
class Outcome:
    turn: Turn
    result: Chunk | Exception
