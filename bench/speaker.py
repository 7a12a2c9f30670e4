"""A loaded model that is measured without a server: how soon it speaks, what that costs, how soon it stops."""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from bench.device import Device
from bench.row import Row
from bench.texts import FIFTEEN_WORDS
from engines.contract import Chunk, EngineError, Facts, Info, Model, Request
from saystream.load.crowd import percentiles

AT_ONCE = (1, 4, 16)
_STEPS_BEFORE_CANCEL = 2
_LEAST_STEPS = 3


@dataclass(frozen=True, slots=True)
class Allowance:
    """How long a figure may take: so many rounds, fewer when the time is over, one at least."""

    until_s: float
    """Monotonic."""
    rounds: int

    @property
    def over(self) -> bool:
        return monotonic() >= self.until_s

    def more(self, rounds_done: int) -> bool:
        return rounds_done < 1 or (rounds_done < self.rounds and not self.over)

    def part(self, share: float) -> "Allowance":
        """For the next of several measurements, `share` of what is left."""
        return Allowance(monotonic() + share * max(0.0, self.until_s - monotonic()), self.rounds)


@dataclass(frozen=True, slots=True)
class Speaker:
    label: str
    model: Model[Any, Any]
    facts: Facts
    info: Info
    """With this checkpoint."""
    device: Device
    seeds: Iterator[int] = field(default_factory=itertools.count)

    def first_audio(self, allowance: Allowance) -> Row:
        """From the start of a stream to its first sound; the first time isn't counted."""
        self._first_sound_ms()
        waits_ms: list[float] = []
        while allowance.more(len(waits_ms)):
            waits_ms.append(self._first_sound_ms())
        p50, p95 = percentiles(waits_ms)
        return Row(
            f"{self.label}: first audio",
            f"p50 {p50:.1f}, p95 {p95:.1f} ms over {len(waits_ms)} starts",
            "",
            None,
            {"p50_ms": p50, "p95_ms": p95, "starts": float(len(waits_ms))},
        )

    def _first_sound_ms(self) -> float:
        begin_s = self.device.now_s()
        with self._open(1) as (stream,):
            chunk = self._step([stream])[0]
            while not chunk.samples.size and not chunk.last:
                chunk = self._step([stream])[0]
            took_s = self.device.now_s() - begin_s
        if not chunk.samples.size:
            raise EngineError("the utterance ended without a sound")
        self.device.look()
        return 1000 * took_s

    def cost(self, allowance: Allowance) -> Row:
        """One utterance after the other, each with its start; one cut short by the time counts as far as it came."""
        spent_s = audio_s = 0.0
        steps_ms: list[float] = []
        utterances = 0
        while allowance.more(utterances):
            begin_s = self.device.now_s()
            with self._open(1) as (stream,):
                last = False
                while not last and not (allowance.over and len(steps_ms) >= _LEAST_STEPS):
                    before_s = self.device.now_s()
                    chunk = self._step([stream])[0]
                    steps_ms.append(1000 * (self.device.now_s() - before_s))
                    audio_s += self._audio_s([chunk])
                    last = chunk.last
            spent_s += self.device.now_s() - begin_s
            utterances += 1
            self.device.look()
        cost = spent_s / self._heard(audio_s)
        p50, p95 = percentiles(steps_ms)
        return Row(
            f"{self.label}: cost",
            f"{cost:.3g} s of the device for a second of audio ({1 / cost:.3g}x real time); "
            f"a step p50 {p50:.1f}, p95 {p95:.1f} ms; measured over {audio_s:.1f} s of audio",
            "",
            None,
            {"cost": cost, "step_p50_ms": p50, "step_p95_ms": p95, "audio_s": audio_s},
        )

    def throughput(self, allowance: Allowance) -> Row:
        """Seconds of audio in a second with more and more streams, in one step or in turns as the engine has it."""
        counts = sorted({min(count, self.facts.max_open) for count in AT_ONCE})
        rates: dict[int, float] = {}
        for place, count in enumerate(counts):
            if place and allowance.over:
                break
            rates[count] = self._audio_s_per_s(count, allowance.part(1 / (len(counts) - place)))
        most = max(rates)
        gain = rates[most] / rates[1]
        left_out = [str(count) for count in counts if count not in rates]
        bounded = self.device.accelerator and min(self.facts.max_batch, most) >= 8
        return Row(
            f"{self.label}: throughput",
            ", ".join(f"{rate:.3g} with {count}" for count, rate in rates.items())
            + f" at once, in seconds of audio a second ({gain:.2f}x; {self._manner()})"
            + (f"; left out for want of time: {', '.join(left_out)}" if left_out else ""),
            "≥ 3x solo" if bounded else "",
            gain >= 3 if bounded else None,
            {f"at_{count}": rate for count, rate in rates.items()} | {"gain": gain},
        )

    def _manner(self) -> str:
        if self.facts.max_open == 1:
            return "it speaks to one at a time"
        if self.facts.max_batch == 1:
            return "they take turns"
        return f"up to {self.facts.max_batch} in one step"

    def _audio_s_per_s(self, count: int, allowance: Allowance) -> float:
        """Once all have begun; who ends is followed by another, whose start counts."""
        size = self.facts.max_batch
        with self._open(count) as streams:
            self._replace(streams, self._turn(streams, size))
            audio_s, rounds = 0.0, 0
            begin_s = self.device.now_s()
            while allowance.more(rounds):
                chunks = self._turn(streams, size)
                audio_s += self._audio_s(chunks)
                self._replace(streams, chunks)
                rounds += 1
                self.device.look()
            took_s = self.device.now_s() - begin_s
        return self._heard(audio_s) / took_s

    def _turn(self, streams: Sequence[Any], size: int) -> list[Chunk]:
        """Each is advanced once."""
        parts = [streams[at : at + size] for at in range(0, len(streams), size)]
        return [chunk for part in parts for chunk in self._step(part)]

    def _replace(self, streams: list[Any], chunks: Sequence[Chunk]) -> None:
        for place, chunk in enumerate(chunks):
            if chunk.last:
                self.model.close(streams[place])
                streams[place] = self._start()

    def cancel(self, allowance: Allowance) -> Row:
        """Between steps, of streams that speak; a cancel that comes during a step waits for its end, too."""
        closes_ms: list[float] = []
        steps_ms: list[float] = []
        while allowance.more(len(closes_ms)):
            with self._open(1) as (stream,):
                for _ in range(_STEPS_BEFORE_CANCEL):
                    before_s = self.device.now_s()
                    last = self._step([stream])[0].last
                    steps_ms.append(1000 * (self.device.now_s() - before_s))
                    if last:
                        break
                begin_s = self.device.now_s()
                self.model.close(stream)
                closes_ms.append(1000 * (self.device.now_s() - begin_s))
            self.device.look()
        p50, p95 = percentiles(closes_ms)
        step_ms = percentiles(steps_ms)[1]
        return Row(
            f"{self.label}: cancel",
            f"p50 {p50:.2f}, p95 {p95:.2f} ms between steps over {len(closes_ms)}; "
            f"during one up to its end, p95 {step_ms:.1f} ms later",
            "",
            None,
            {"p50_ms": p50, "p95_ms": p95, "step_p95_ms": step_ms},
        )

    @contextmanager
    def _open(self, count: int) -> Iterator[list[Any]]:
        """Those that are in the list at the end are closed, whatever happens."""
        streams: list[Any] = []
        try:
            for _ in range(count):
                streams.append(self._start())
            yield streams
        finally:
            for stream in streams:
                self.model.close(stream)

    def _start(self) -> Any:
        seed = next(self.seeds)
        request = Request(
            text=FIFTEEN_WORDS[seed % len(FIFTEEN_WORDS)],
            language=next(iter(self.info.languages)),
            voice=self.info.voices[0].voice_id,
            seed=seed,
        )
        return self.model.start(request, None)

    def _step(self, streams: Sequence[Any]) -> list[Chunk]:
        chunks = []
        for result in self.model.step(streams):
            if isinstance(result, EngineError):
                raise result
            chunks.append(result)
        return chunks

    def _audio_s(self, chunks: Sequence[Chunk]) -> float:
        return sum(chunk.samples.size for chunk in chunks) / self.facts.sample_rate_hz

    def _heard(self, audio_s: float) -> float:
        if not audio_s:
            raise EngineError("no sound was made")
        return audio_s
