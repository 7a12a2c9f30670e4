"""What can be in memory: an engine with one checkpoint on one device."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from engines.contract import Engine, Facts, Fetching, Model, Request, Source
from residency.planner import Policy
from residency.prompts import PromptSource

AnyModel = Model[Any, Any]
UnitState = Literal["unloaded", "loading", "ready", "draining", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    name: str
    engine: Engine
    source: Source
    device: str
    """Units of one device share its memory and its lanes."""
    facts: Facts
    guard: Callable[[AnyModel], AnyModel] | None = None
    """Decorates each loaded model."""
    probes: tuple[Request, ...] = ()
    """What is spoken, unheard, after the first load to learn its cost; empty: nothing is."""
    hosted: bool = False
    """In a process of its own, with a lane of its own that waits for it."""
    prompts: PromptSource | None = None
    """Where uploaded voices come from; None: from nowhere."""

    @property
    def fetches(self) -> bool:
        """Its weights may have to be brought here before it is loaded."""
        return isinstance(self.engine, Fetching)

    def fetch(self) -> None:
        """For a thread that nobody waits for. Raises EngineUnavailable, or what the engine does."""
        if isinstance(self.engine, Fetching):
            self.engine.fetch(self.source)

    def load(self) -> AnyModel:
        """Called by the lane that will own the model. Raises EngineUnavailable, or what the engine does."""
        model = self.engine.load(self.source, self.device)
        return self.guard(model) if self.guard is not None else model


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitStatus:
    """One row of what can be said about a unit."""

    name: str
    device: str
    state: UnitState
    facts: Facts
    healthy: bool
    """It is loaded, and has spoken lately; an old proof is none."""
    in_flight: int
    cost: float | None
    """Device seconds for a second of speech, its inverse the speed in real time; None: never measured."""
    realtime: bool
    policy: Policy
    footprint_bytes: int
    """0: not known."""
    memory: Mapping[str, int] | None
    """What its runtime has in use, keeps for later, had in use at the most, where it can tell; of the last second in
    which it spoke.
    """
    last_error: str | None
    load_s: float | None
