"""What is spoken, unheard, after a load: it warms the model up, proves that it speaks, and tells its cost."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from engines.contract import Chunk, EngineError, Facts, Info, Request
from residency.units import AnyModel

BUDGET_S = 1.0
"""No stream is started after this."""
MOST_STEPS = 400
TEXTS = (
    "Hello there.",
    "It is a fine day, and the sea is calm.",
    "We walked along the shore until the lamps of the harbour were lit one by one.",
    "When the last of the boats had come in, somebody opened a window above the square, and music came out.",
)


@dataclass(frozen=True, slots=True)
class Observed:
    """One step of the probe."""

    chars: int
    first: bool
    step_s: float
    audio_s: float
    batch: int


def default_probes(info: Info, facts: Facts) -> tuple[Request, ...]:
    """The first built-in voice says four sentences; none if there is no such voice."""
    if not info.voices:
        return ()
    voice = info.voices[0]
    language = voice.language if voice.language in info.languages else next(iter(info.languages))
    speed = min(max(1.0, facts.speed[0]), facts.speed[1])
    options = None if info.options is None else info.options()
    return tuple(
        Request(
            text=text[: facts.max_chars],
            language=language,
            voice=voice.voice_id,
            speed=speed,
            options=options,
        )
        for text in TEXTS
    )


def probe(
    model: AnyModel, requests: Sequence[Request], facts: Facts, now: Callable[[], float]
) -> list[Observed]:
    """Runs on the lane. Raises what the engine does; the first stream only warms up and isn't told of."""
    if not requests:
        return []
    speak(model, requests[:1], facts, now)
    observed: list[Observed] = []
    until_s = now() + BUDGET_S
    full = min(facts.max_batch, facts.max_open)
    for request in cycle(requests):
        observed += speak(model, [request], facts, now)
        if full > 1:
            observed += speak(model, [request] * full, facts, now)
        if now() >= until_s or len(observed) >= MOST_STEPS:
            return observed
    return observed


def speak(
    model: AnyModel, requests: Sequence[Request], facts: Facts, now: Callable[[], float]
) -> list[Observed]:
    """Together. Raises what the engine does."""
    streams: list[Any] = []
    observed: list[Observed] = []
    try:
        streams.extend(model.start(request, None) for request in requests)
        speaking = list(streams)
        while speaking and len(observed) < MOST_STEPS:
            started_s = now()
            results = model.step(speaking)
            step_s = now() - started_s
            chunks = [_checked(result) for result in results]
            audio_s = sum(len(chunk.samples) for chunk in chunks) / facts.sample_rate_hz / len(chunks)
            last = [chunk.last for chunk in chunks]
            observed.append(Observed(len(requests[0].text), not observed, step_s, audio_s, len(chunks)))
            speaking = [stream for stream, ended in zip(speaking, last, strict=True) if not ended]
    finally:
        for stream in streams:
            model.close(stream)
    return observed


def _checked(result: Chunk | EngineError) -> Chunk:
    if isinstance(result, EngineError):
        raise result
    return result
