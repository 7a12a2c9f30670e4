"""The engine without a server: what one segment costs, and how much speech a second of it makes."""

import statistics
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from engines.contract import Chunk, EngineError, Request, Samples, Source, info_of
from engines.guards import Guarded
from engines.registry import find


class Bare:
    """One loaded model, used by the thread that made it."""

    def __init__(
        self, engine: str = "hibari", source: Source | None = None, *, guarded: bool = False
    ) -> None:
        """`guarded`: long silences are trimmed, as they are for every listener."""
        found = find(engine)
        source = source or Source()
        facts = found.identify(source)
        info = info_of(found.info, facts)
        self.rate_hz = facts.sample_rate_hz
        self._language = next(iter(info.languages))
        self._voice = info.voices[0].voice_id
        model = found.load(source, "cpu")
        self._model: Any = Guarded(model, facts, info) if guarded else model
        self.speak("Warm up the engine, please.")

    def first_chunk_ms(self, text: str, calls: int) -> float:
        """Median over so many calls."""
        return statistics.median(self._first_chunk_ms(text) for _ in range(calls))

    def step_ms(self, text: str) -> list[float]:
        """Of each step of one segment."""
        stream = self._model.start(self._request(text), None)
        took_ms, last = [], False
        while not last:
            begin_s = time.perf_counter()
            last = self._step(stream).last
            took_ms.append(1000 * (time.perf_counter() - begin_s))
        self._model.close(stream)
        return took_ms

    def speak(self, text: str) -> float:
        """Seconds of audio."""
        return len(self.samples(text)) / self.rate_hz

    def samples(self, text: str) -> Samples:
        stream = self._model.start(self._request(text), None)
        parts, last = [], False
        while not last:
            chunk = self._step(stream)
            parts.append(chunk.samples)
            last = chunk.last
        self._model.close(stream)
        return np.concatenate(parts)

    def unload(self) -> None:
        self._model.unload()

    def _first_chunk_ms(self, text: str) -> float:
        begin_s = time.perf_counter()
        stream = self._model.start(self._request(text), None)
        chunk = self._step(stream)
        while not len(chunk.samples) and not chunk.last:
            chunk = self._step(stream)
        took_ms = 1000 * (time.perf_counter() - begin_s)
        self._model.close(stream)
        return took_ms

    def _step(self, stream: Any) -> Chunk:
        (result,) = self._model.step([stream])
        if isinstance(result, EngineError):
            raise result
        return result  # type: ignore[no-any-return]

    def _request(self, text: str) -> Request:
        return Request(text=text, language=self._language, voice=self._voice)


def library_audio_s_per_s(segments: Sequence[str], *, seconds: float) -> float:
    """What hibari's own call makes in a second on one thread, of as many segments as that takes.

    A listener's seconds are counted: without the long silences that the guards trim.
    """
    from hibari import Hibari

    library, listener = Hibari(threads=1), Bare(guarded=True)
    made_s: dict[str, float] = {}
    library("Warm up the engine, please.")
    spent_s = total_s = 0.0
    at = 0
    while spent_s < seconds:
        segment = segments[at % len(segments)]
        begin_s = time.perf_counter()
        for _ in library.stream(segment):
            pass
        spent_s += time.perf_counter() - begin_s
        if segment not in made_s:
            made_s[segment] = listener.speak(segment)
        total_s += made_s[segment]
        at += 1
    return total_s / spent_s


def audio_s_per_s(segments: Sequence[str], *, lanes: int, seconds: float) -> float:
    """Speech as a listener gets it, made in a second by so many threads, each with a model of its own."""
    made = [0.0] * lanes
    took = [1.0] * lanes
    ready = threading.Barrier(lanes)

    def work(lane: int) -> None:
        bare = Bare(guarded=True)
        ready.wait()
        begin_s = time.perf_counter()
        at = lane
        while (took_s := time.perf_counter() - begin_s) < seconds:
            made[lane] += bare.speak(segments[at % len(segments)])
            at += lanes
        took[lane] = took_s
        bare.unload()

    threads = [threading.Thread(target=work, args=(lane,)) for lane in range(lanes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(audio_s / took_s for audio_s, took_s in zip(made, took, strict=True))
