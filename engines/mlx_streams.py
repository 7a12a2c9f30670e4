"""A model on MLX whose streams are generators: each has its random state, none runs between its steps."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from weakref import WeakSet

import numpy as np

from engines.contract import Chunk, CloneMode, EngineError, Request, Samples
from engines.mlx_runtime import Array, RandomState, Runtime
from voices.reference import Reference


@dataclass(slots=True, eq=False, weakref_slot=True)
class MlxPrompt:
    """A voice in memory; empty after its model's unload, whoever still holds it."""

    tensors: dict[str, Array]
    text: str = ""
    """What is said in the recording."""

    def drop(self) -> None:
        self.tensors.clear()


@dataclass(slots=True, eq=False, weakref_slot=True)
class MlxStream:
    request: Request
    random: RandomState
    pieces: Iterator[Samples] | None
    """None: it is over."""


class MlxModel(ABC):
    """What the models of this runtime have in common; what differs is how a request is spoken."""

    def __init__(self, name: str, runtime: Runtime) -> None:
        self._name = name
        self._runtime = runtime
        self._streams: WeakSet[MlxStream] = WeakSet()
        self._prompts: WeakSet[MlxPrompt] = WeakSet()

    @abstractmethod
    def prepare(self, reference: Reference, mode: CloneMode) -> bytes: ...

    @abstractmethod
    def _restore(self, prompt: bytes) -> MlxPrompt: ...

    @abstractmethod
    def _check(self, request: Request, prompt: MlxPrompt | None) -> None:
        """Raises EngineError, or OptionError for what this checkpoint can't do."""

    @abstractmethod
    def _speak(self, request: Request, prompt: MlxPrompt | None) -> Iterator[Samples]:
        """A generator: nothing is computed before its first step."""

    @abstractmethod
    def _drop(self) -> None:
        """Every reference to the model."""

    def restore(self, prompt: bytes) -> MlxPrompt:
        restored = self._restore(prompt)
        self._prompts.add(restored)
        return restored

    def start(self, request: Request, prompt: MlxPrompt | None) -> MlxStream:
        self._check(request, prompt)
        stream = MlxStream(request, RandomState(request.seed), self._speak(request, prompt))
        self._streams.add(stream)
        return stream

    def extend(self, stream: MlxStream, text: str, last: bool) -> None:
        raise EngineError(
            f"{self._name}'s streams don't grow ({stream.request.voice}, {len(text)} characters, {last=})"
        )

    def step(self, streams: Sequence[MlxStream]) -> Sequence[Chunk | EngineError]:
        return [self._advance(stream) for stream in streams]

    def close(self, stream: MlxStream) -> None:
        if stream.pieces is None:
            return
        pieces, stream.pieces = stream.pieces, None
        if hasattr(pieces, "close"):
            pieces.close()
        del pieces
        self._runtime.settle()

    def peak_bytes(self) -> int:
        return self._runtime.memory()["peak_bytes"]

    def memory(self) -> Mapping[str, int]:
        return self._runtime.memory()

    def unload(self) -> None:
        for stream in list(self._streams):
            self.close(stream)
        for prompt in list(self._prompts):
            prompt.drop()
        self._drop()
        self._runtime.give_back()

    def _advance(self, stream: MlxStream) -> Chunk | EngineError:
        if stream.pieces is None:
            return EngineError("the stream has ended")
        try:
            with stream.random:
                samples = next(stream.pieces, None)
        except EngineError as error:
            self.close(stream)
            return error
        except Exception as error:  # noqa: BLE001 - the library's own, of this stream alone
            self.close(stream)
            return EngineError(f"{self._name} failed: {type(error).__name__}: {error}")
        if samples is None:
            self.close(stream)
            return Chunk(np.zeros(0, np.float32), last=True)
        return Chunk(samples)


T = TypeVar("T")


def grouped(frames: Iterator[T], frames_per_step: int) -> Iterator[list[T]]:
    """One alone, so that the first sound comes early, then two, then as many as a step takes."""
    size, group = 1, []
    for frame in frames:
        group.append(frame)
        if len(group) == min(size, frames_per_step):
            yield group
            size, group = size * 2, []
    if group:
        yield group


@dataclass(frozen=True, slots=True)
class LengthCap:
    """How long a text's audio can become: a network that misses its end goes on for minutes."""

    frames_per_token: float
    spare_frames: int

    def frames(self, tokens: int) -> int:
        return max(1, round(self.frames_per_token * tokens) + self.spare_frames)
