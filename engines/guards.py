"""Guards around any model: what an engine gets wrong is mended, taken again or an error, never passed on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np
import regex

from engines.contract import Chunk, CloneMode, EngineError, Facts, Info, Model, Request, Samples, Word
from engines.silence import SilenceGate, SilenceRules
from voices.reference import Reference

P = TypeVar("P")
S = TypeVar("S")

_IDEOGRAPH = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]")
_LETTER = regex.compile(r"\p{L}")
_WORD = regex.compile(r"\p{L}+")
_COUNTED_LETTERS = 20
"""Of one word, towards the least: a longer one may be an address or a keyboard's cry."""
_DIGIT = regex.compile(r"\p{N}")
_SIGN = regex.compile(r"[^\p{L}\p{N}\p{M}\s]")
_SEED_STEP = 0x9E3779B97F4A7C15


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long a text's speech can be, in seconds."""

    least_s: float
    """Shorter is a collapse; 0 for a text too short to tell."""
    typical_s: float
    most_s: float
    """Longer is a runaway."""


def lengths(text: str, speed: float) -> Lengths:
    """Bounds wide enough for every language: people speak 4 to 10 syllables a second, numbers are long words."""
    ideographs = len(_IDEOGRAPH.findall(text))
    letters = len(_LETTER.findall(text)) - ideographs
    digits = len(_DIGIT.findall(text))
    signs = len(_SIGN.findall(text))
    counted = sum(min(len(word), _COUNTED_LETTERS) for word in _WORD.findall(_IDEOGRAPH.sub(" ", text)))
    least_s = 0.02 * counted + 0.06 * ideographs
    return Lengths(
        least_s=least_s / speed if least_s > 0.2 else 0.0,
        typical_s=(0.065 * letters + 0.2 * ideographs + 0.3 * digits) / speed,
        most_s=(4 + 0.35 * letters + 0.9 * (ideographs + digits + signs)) / speed,
    )


@dataclass(slots=True)
class GuardCounts:
    clamped_chunks: int = 0
    not_finite: int = 0
    collapsed: int = 0
    runaways: int = 0
    silent: int = 0
    gaps_cut: int = 0
    second_takes: int = 0


@dataclass(slots=True, eq=False)
class GuardedStream(Generic[P, S]):
    request: Request
    prompt: P | None
    inner: S
    bounds: Lengths
    gate: SilenceGate
    made_samples: int = 0
    passed_on: bool = False
    retaken: bool = False
    over: bool = False
    words: list[Word] = field(default_factory=list)
    """Not yet passed on: no sample of theirs has come out."""


class _WrongTake(Exception):  # noqa: N818 - a verdict, not an error until nothing can be done about it
    pass


class Guarded(Generic[P, S]):
    """A model whose chunks are finite, within ±1, no longer than their text allows and never silently missing.

    A take that went wrong is taken again with another seed, once, while nothing of it was passed on and if the
    engine samples; else its stream fails with EngineError. A chunk can be empty without being the last.
    """

    def __init__(
        self, model: Model[P, S], facts: Facts, info: Info, *, rules: SilenceRules | None = None
    ) -> None:
        self.counts = GuardCounts()
        self._model = model
        self._facts = facts
        self._rules = rules or SilenceRules()
        self._speakable = _speakable(info)

    def prepare(self, reference: Reference, mode: CloneMode) -> bytes:
        return self._model.prepare(reference, mode)

    def restore(self, prompt: bytes) -> P:
        return self._model.restore(prompt)

    def start(self, request: Request, prompt: P | None) -> GuardedStream[P, S]:
        inner = self._model.start(request, prompt)
        bounds = lengths(request.text, request.speed)
        return GuardedStream(request, prompt, inner, bounds, self._gate(request, bounds))

    def extend(self, stream: GuardedStream[P, S], text: str, last: bool) -> None:
        self._model.extend(stream.inner, text, last)
        stream.request = replace(stream.request, text=stream.request.text + text, last=last)
        stream.bounds = lengths(stream.request.text, stream.request.speed)
        stream.gate.cut_after(self._cut_after_samples(stream.request, stream.bounds))

    def step(self, streams: Sequence[GuardedStream[P, S]]) -> Sequence[Chunk | EngineError]:
        running = [stream for stream in streams if not stream.over]
        results = iter(self._model.step([stream.inner for stream in running]) if running else ())
        return [
            EngineError("the stream has ended") if stream.over else self._judge(stream, next(results))
            for stream in streams
        ]

    def close(self, stream: GuardedStream[P, S]) -> None:
        stream.over = True
        stream.words.clear()
        self._model.close(stream.inner)

    def peak_bytes(self) -> int | None:
        """What it has taken of memory at the most; None: it can't tell."""
        own: Callable[[], int | None] = getattr(self._model, "peak_bytes", lambda: None)
        return own()

    def memory(self) -> Mapping[str, int] | None:
        """What its runtime has in use, keeps, had in use at the most; None: it can't tell."""
        own: Callable[[], Mapping[str, int] | None] = getattr(self._model, "memory", lambda: None)
        return own()

    def unload(self) -> None:
        self._model.unload()

    def _gate(self, request: Request, bounds: Lengths) -> SilenceGate:
        cut_after_samples = self._cut_after_samples(request, bounds)
        return SilenceGate(self._rules, self._facts.sample_rate_hz, cut_after_samples=cut_after_samples)

    def _cut_after_samples(self, request: Request, bounds: Lengths) -> int | None:
        """While text is still coming, silence isn't an end."""
        if not self._facts.sampling or not request.last:
            return None
        return round(bounds.typical_s / 2 * self._facts.sample_rate_hz)

    def _judge(self, stream: GuardedStream[P, S], result: Chunk | EngineError) -> Chunk | EngineError:
        if isinstance(result, EngineError):
            self.close(stream)
            return result
        try:
            return self._pass_on(stream, result)
        except _WrongTake as wrong:
            if not self._facts.sampling or stream.retaken or stream.passed_on:
                self.close(stream)
                return EngineError(str(wrong))
            return self._take_again(stream)

    def _take_again(self, stream: GuardedStream[P, S]) -> Chunk | EngineError:
        self._model.close(stream.inner)
        seed = (stream.request.seed + _SEED_STEP) % 2**63
        try:
            stream.inner = self._model.start(replace(stream.request, seed=seed), stream.prompt)
        except EngineError as error:
            stream.over = True
            return error
        self.counts.second_takes += 1
        stream.retaken = True
        stream.made_samples = 0
        stream.words.clear()
        stream.gate = self._gate(stream.request, stream.bounds)
        return Chunk(np.zeros(0, np.float32))

    def _pass_on(self, stream: GuardedStream[P, S], chunk: Chunk) -> Chunk:
        samples = self._mend(chunk.samples)
        stream.made_samples += samples.size
        made_s = stream.made_samples / self._facts.sample_rate_hz
        if made_s > stream.bounds.most_s:
            self.counts.runaways += 1
            raise _WrongTake(f"the engine didn't stop: {made_s:.1f} s for its text")
        out = stream.gate.push(samples, last=chunk.last)
        last = chunk.last or stream.gate.cut
        if last:
            self._check_whole(stream)
            stream.over = True
        if stream.gate.cut:
            self.counts.gaps_cut += 1
            self._model.close(stream.inner)
        stream.passed_on = stream.passed_on or out.size > 0
        words = self._words(stream, chunk.words, last=last)
        return Chunk(out, words, last=last, wants_text=chunk.wants_text)

    def _mend(self, samples: Samples) -> Samples:
        peak = float(np.abs(samples).max()) if samples.size else 0.0
        if not np.isfinite(peak):
            self.counts.not_finite += 1
            raise _WrongTake("the engine made samples that aren't numbers")
        if peak > 1:
            self.counts.clamped_chunks += 1
            return np.clip(samples, -1, 1)
        return samples

    def _check_whole(self, stream: GuardedStream[P, S]) -> None:
        if not stream.gate.heard and self._speakable.search(stream.request.text):
            self.counts.silent += 1
            raise _WrongTake("the engine made no sound for its text")
        spoken_s = stream.gate.passed_samples / self._facts.sample_rate_hz
        if stream.gate.heard and spoken_s < stream.bounds.least_s:
            self.counts.collapsed += 1
            raise _WrongTake(
                f"the engine lost its text: {spoken_s:.2f} s, {stream.bounds.least_s:.2f} s is the least"
            )

    def _words(self, stream: GuardedStream[P, S], words: Sequence[Word], *, last: bool) -> tuple[Word, ...]:
        """Those that begin in what has come out; positions follow what the gate dropped."""
        gate = stream.gate
        stream.words.extend(words)
        ready: list[Word] = []
        while stream.words:
            start_char, end_char, start, end = stream.words[0]
            start = max(0, start - gate.dropped_samples)
            end = max(start, end - gate.dropped_samples)
            if start >= gate.passed_samples and not last:
                break
            stream.words.pop(0)
            limit = gate.passed_samples if last else end
            ready.append((start_char, end_char, min(start, limit), min(end, limit)))
        return tuple(ready)


def _speakable(info: Info) -> "regex.Pattern[str]":
    """What an engine must not be silent about: letters of its scripts (not those of phonetic notation), digits."""
    if info.scripts is None:
        return regex.compile(r"[\p{L}\p{N}]")
    scripts = "".join(rf"\p{{{script}}}" for script in sorted(info.scripts))
    return regex.compile(rf"[0-9]|[[{scripts}]&&\p{{L}}--\p{{Lm}}--[\u0250-\u02AF]]", regex.VERSION1)
