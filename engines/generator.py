"""Turns a plain generator function into a model: the short way to add an engine."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from engines.contract import Chunk, CloneMode, EngineError, Request, Samples
from voices.reference import Reference

Speak = Callable[[Request], Iterator[Samples]]
"""Yields float32 [n] pieces of one segment, each as soon as it exists; may raise EngineError."""


@dataclass(slots=True, eq=False)
class GeneratorStream:
    pieces: Iterator[Samples]
    ended: bool = False


class GeneratorModel:
    """Each step is one piece; closing a stream closes its generator, so `finally` blocks run."""

    def __init__(self, speak: Speak, *, unload: Callable[[], None] = lambda: None) -> None:
        self._speak = speak
        self._unload = unload

    def prepare(self, reference: Reference, mode: CloneMode) -> bytes:
        raise EngineError(f"this engine clones no voices ({mode}, {reference.samples.size} samples)")

    def restore(self, prompt: bytes) -> NoReturn:
        raise EngineError(f"this engine has no prompts ({len(prompt)} bytes)")

    def start(self, request: Request, prompt: None) -> GeneratorStream:
        del prompt
        return GeneratorStream(self._speak(request))

    def extend(self, stream: GeneratorStream, text: str, last: bool) -> None:
        raise EngineError(f"this engine's streams don't grow ({stream}, {len(text)} characters, {last=})")

    def step(self, streams: Sequence[GeneratorStream]) -> Sequence[Chunk | EngineError]:
        return [_advance(stream) for stream in streams]

    def close(self, stream: GeneratorStream) -> None:
        stream.ended = True
        close = getattr(stream.pieces, "close", None)
        if close is not None:
            close()

    def unload(self) -> None:
        self._unload()


def _advance(stream: GeneratorStream) -> Chunk | EngineError:
    if stream.ended:
        return EngineError("the stream has ended")
    try:
        piece = next(stream.pieces, None)
    except EngineError as error:
        stream.ended = True
        return error
    if piece is None:
        stream.ended = True
        return Chunk(np.zeros(0, np.float32), last=True)
    return Chunk(np.asarray(piece, np.float32).reshape(-1))
