"""What a lane is told to do next, and what it tells of it."""

from dataclasses import dataclass
from typing import Any

from engines.contract import Chunk
from residency.listener import Job, Listener


@dataclass(frozen=True, slots=True)
class Turn:
    listener: Listener
    job: Job


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
class Rest:
    until_s: float
    """Infinite: until something changes."""


@dataclass(frozen=True, slots=True)
class Closing:
    unit: str
    stream: Any


@dataclass(frozen=True, slots=True)
class Work:
    closings: tuple[Closing, ...]
    """Before the task."""
    task: Step | Load | Unload | Canary | Rest


@dataclass(frozen=True, slots=True)
class Outcome:
    turn: Turn
    result: Chunk | Exception
