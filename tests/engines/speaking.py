"""Runs streams of a model to their ends, as a lane would."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engines.contract import Chunk, EngineError, Model, Request, Samples, Word

_MOST_STEPS = 100_000


@dataclass(frozen=True, slots=True)
class Spoken:
    samples: Samples
    words: tuple[Word, ...]
    chunks: tuple[Chunk, ...]


def spoken(chunks: Sequence[Chunk]) -> Spoken:
    samples = np.concatenate([chunk.samples for chunk in chunks]) if chunks else np.zeros(0, np.float32)
    return Spoken(samples, tuple(word for chunk in chunks for word in chunk.words), tuple(chunks))


def step(model: Model[Any, Any], stream: Any) -> Chunk:
    """One step of one stream; raises its error."""
    (result,) = model.step([stream])
    if isinstance(result, EngineError):
        raise result
    return result


def finish(model: Model[Any, Any], stream: Any) -> Spoken:
    """The rest of a stream."""
    chunks: list[Chunk] = []
    for _ in range(_MOST_STEPS):
        chunks.append(step(model, stream))
        if chunks[-1].last:
            model.close(stream)
            return spoken(chunks)
    raise AssertionError("the stream didn't end")


def speak(model: Model[Any, Any], request: Request, prompt: Any = None) -> Spoken:
    return finish(model, model.start(request, prompt))


def speak_together(model: Model[Any, Any], requests: Sequence[Request], batch: int) -> list[Spoken]:
    """All at once: each step takes the next `batch` of those that still run, going round."""
    streams = [model.start(request, None) for request in requests]
    chunks: list[list[Chunk]] = [[] for _ in streams]
    running = list(range(len(streams)))
    while running:
        turn, running = running[:batch], running[batch:]
        for index, result in zip(turn, model.step([streams[index] for index in turn]), strict=True):
            if isinstance(result, EngineError):
                raise result
            chunks[index].append(result)
            if not result.last:
                running.append(index)
    for stream in streams:
        model.close(stream)
    return [spoken(each) for each in chunks]
