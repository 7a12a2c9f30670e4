"""An engine whose every step a test can hold, watch and break."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Never

import numpy as np

from engines.contract import (
    BuiltinVoice,
    Chunk,
    CloneMode,
    EngineError,
    Facts,
    Info,
    Request,
    Source,
)
from residency.units import Unit
from voices.reference import Reference

RATE_HZ = 1000
CHARS_PER_S = 10
LANGUAGES: Mapping[str, str] = MappingProxyType({"en": "English"})


def request(text: str) -> Request:
    return Request(text=text, language="en", voice="one")


@dataclass(eq=False)
class FakeStream:
    request: Request
    left_samples: int
    closed: bool = False


@dataclass(eq=False)
class FakeModel:
    """Makes a second of audio for ten characters; a text that contains "bad start", "bad step" or "bomb" fails
    there, "bomb" with all others of its step."""

    facts: Facts
    on_step: Callable[[list[FakeStream]], None] = lambda _: None
    """Called within each step; may block, to hold it."""
    events: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    open: set[FakeStream] = field(default_factory=set)
    threads: set[int] = field(default_factory=set)
    unloaded: bool = False

    def prepare(self, reference: Reference, mode: CloneMode) -> bytes:
        raise EngineError("clones nothing")

    def restore(self, prompt: bytes) -> Never:
        raise EngineError("has no prompts")

    def start(self, request: Request, prompt: None) -> FakeStream:
        self._note("start", request.text)
        if "bad start" in request.text:
            raise EngineError("can't start this")
        stream = FakeStream(request, len(request.text) * RATE_HZ // CHARS_PER_S)
        self.open.add(stream)
        assert len(self.open) <= self.facts.max_open
        return stream

    def extend(self, stream: FakeStream, text: str, last: bool) -> None:
        raise EngineError("doesn't grow")

    def step(self, streams: Sequence[FakeStream]) -> Sequence[Chunk | EngineError]:
        assert len(streams) <= self.facts.max_batch
        assert all(stream in self.open for stream in streams)
        self._note("step", *(stream.request.text for stream in streams))
        self.on_step(list(streams))
        if any("bomb" in stream.request.text for stream in streams):
            raise RuntimeError("the device is lost")
        return [self._advance(stream) for stream in streams]

    def close(self, stream: FakeStream) -> None:
        self._note("close", stream.request.text)
        assert not stream.closed
        stream.closed = True
        self.open.discard(stream)

    def unload(self) -> None:
        self._note("unload")
        self.unloaded = True

    def steps(self) -> list[tuple[str, ...]]:
        return [texts for kind, texts in self.events if kind == "step"]

    def _advance(self, stream: FakeStream) -> Chunk | EngineError:
        if "bad step" in stream.request.text:
            return EngineError("can't go on")
        step = stream.left_samples
        if self.facts.step_s is not None:
            step = min(step, int(self.facts.step_s * RATE_HZ))
        stream.left_samples -= step
        return Chunk(np.full(step, 0.1, np.float32), last=stream.left_samples == 0)

    def _note(self, kind: str, *texts: str) -> None:
        assert not self.unloaded
        self.threads.add(threading.get_ident())
        self.events.append((kind, texts))


@dataclass(eq=False)
class FakeEngine:
    facts: Facts
    on_step: Callable[[list[FakeStream]], None] = lambda _: None
    on_load: Callable[[], None] = lambda: None
    """May block, or raise."""
    models: list[FakeModel] = field(default_factory=list)
    info: Info = field(
        default_factory=lambda: Info(
            name="fake",
            version="1",
            extra=None,
            devices=frozenset({"cpu"}),
            languages=LANGUAGES,
            voices=(BuiltinVoice("one", "One", "en"),),
        )
    )

    def identify(self, source: Source) -> Facts:
        return self.facts

    def load(self, source: Source, device: str) -> FakeModel:
        self.on_load()
        model = FakeModel(self.facts, self.on_step)
        self.models.append(model)
        return model


def facts(*, max_open: int = 1 << 30, max_batch: int = 1, step_s: float | None = None) -> Facts:
    return Facts(
        checkpoint="fake", sample_rate_hz=RATE_HZ, max_open=max_open, max_batch=max_batch, step_s=step_s
    )


def unit(
    engine: FakeEngine, *, name: str = "fake", device: str = "cpu", probes: tuple[Request, ...] = ()
) -> Unit:
    return Unit(name=name, engine=engine, source=Source(), device=device, facts=engine.facts, probes=probes)
