"""A synthetic engine: a sine for each request, exact word times, any speed and any fault, the same each time.

For tests, for developing a client without a model, and for load tests. A character lasts 60 ms; after each word
come 60 ms of silence, so that an ear (or a program) can count them.
"""

import hashlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import regex

from engines.contract import (
    BuiltinVoice,
    Chunk,
    CloneMode,
    EngineError,
    EngineUnavailable,
    Facts,
    Info,
    OptionError,
    Request,
    Samples,
    Source,
    Word,
)
from engines.tone_settings import ToneOptions, ToneSettings
from voices.reference import Reference

_CHAR_S = 0.06
_GAP_S = 0.06
_LEVEL = 0.3
_FADE_S = 0.005
# By the tables that the guards count letters with: a script may be newer than this Python's own.
_WORD = regex.compile(r"\S*[\p{L}\p{N}_]\S*")
_VOICES_HZ: dict[str, float | None] = {"tone": None, "a3": 220.0, "a4": 440.0, "a5": 880.0}
"""None: derived from the text and the seed, so that two requests can be told apart."""
_LOW_HZ, _HIGH_HZ = 200, 2000


@dataclass(frozen=True, slots=True)
class TonePrompt:
    frequency_hz: float


@dataclass(slots=True, eq=False)
class ToneStream:
    request: Request
    options: ToneOptions
    frequency_hz: float
    samples: Samples
    words: tuple[Word, ...]
    grown: bool
    """All its text is there."""
    taken_samples: int = 0
    steps: int = 0
    over: bool = False


class ToneEngine:
    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep

    @property
    def info(self) -> Info:
        return Info(
            name="tone",
            version="1",
            extra=None,
            devices=frozenset({"cpu"}),
            languages={"en-US": "en", "en": "en"},
            voices=tuple(BuiltinVoice(voice, voice.capitalize(), "en-US") for voice in _VOICES_HZ),
            clones=frozenset({"audio", "audio+text"}),
            options=ToneOptions,
            synthetic=True,
        )

    def identify(self, source: Source) -> Facts:
        settings = ToneSettings.from_source(source)
        return Facts(
            checkpoint=f"tone-1-{settings.sample_rate_hz}",
            sample_rate_hz=settings.sample_rate_hz,
            max_open=settings.max_open,
            max_batch=settings.max_batch,
            step_s=None if settings.step_ms is None else settings.step_ms / 1000,
            speed=(0.25, 4.0),
            max_chars=400,
            grows=settings.grows,
            sampling=settings.sampling,
            exact_words=True,
        )

    def load(self, source: Source, device: str) -> "ToneModel":
        settings = ToneSettings.from_source(source)
        if device != "cpu":
            raise EngineUnavailable(f"tone runs on the CPU, not on {device!r}")
        if settings.load_s:
            self._sleep(settings.load_s)
        if settings.fails_to_load:
            raise EngineUnavailable("tone was told to fail to load")
        return ToneModel(settings, self._sleep)


engine = ToneEngine()


class ToneModel:
    """Refuses wrong use: by another thread, beyond its batch or its open streams, after its unload."""

    def __init__(self, settings: ToneSettings, sleep: Callable[[float], None]) -> None:
        self._settings = settings
        self._sleep = sleep
        self._owner = threading.get_ident()
        self._open: set[ToneStream] = set()
        self._loaded = True

    def prepare(self, reference: Reference, mode: CloneMode) -> bytes:
        """The frequency that is strongest in the recording."""
        self._check_owner()
        if mode == "audio+text" and not reference.transcript:
            raise EngineError("tone needs the recording's transcript to clone with audio+text")
        if not reference.samples.size:
            raise EngineError("the recording is empty")
        spectrum = np.abs(np.fft.rfft(reference.samples))
        strongest = int(spectrum.argmax()) * reference.sample_rate_hz / reference.samples.size
        return json.dumps({"frequency_hz": float(np.clip(strongest, _LOW_HZ, _HIGH_HZ))}).encode()

    def restore(self, prompt: bytes) -> TonePrompt:
        self._check_owner()
        return TonePrompt(float(json.loads(prompt)["frequency_hz"]))

    def start(self, request: Request, prompt: TonePrompt | None) -> ToneStream:
        self._check_owner()
        options = request.options or ToneOptions()
        if options.fault is not None and not self._settings.faults:
            raise OptionError("fault", "faults need the setting faults")
        if options.only_seed not in {None, request.seed}:
            options = ToneOptions()
        if options.fault == "raise_at_start":
            raise EngineError("tone was told to fail at the start")
        if not request.last and not self._settings.grows:
            raise EngineError("tone grows only with the setting grows")
        if len(self._open) >= self._settings.max_open:
            raise EngineError(f"tone has {len(self._open)} open streams, as many as it takes")
        frequency_hz = prompt.frequency_hz if prompt else _frequency_hz(request, grows=self._settings.grows)
        stream = ToneStream(request, options, frequency_hz, np.zeros(0, np.float32), (), request.last)
        self._speak(stream, 0)
        self._open.add(stream)
        return stream

    def extend(self, stream: ToneStream, text: str, last: bool) -> None:
        self._check_owner()
        if stream.over or stream.grown:
            raise EngineError("the stream takes no more text")
        spoken_chars = len(stream.request.text)
        stream.request = replace(stream.request, text=stream.request.text + text)
        stream.grown = last
        self._speak(stream, spoken_chars)

    def step(self, streams: Sequence[ToneStream]) -> Sequence[Chunk | EngineError]:
        self._check_owner()
        if not 1 <= len(streams) <= self._settings.max_batch:
            raise ValueError(
                f"{len(streams)} streams in a step; there can be 1 to {self._settings.max_batch}"
            )
        results = [self._advance(stream) for stream in streams]
        self._spend(streams, results)
        return results

    def close(self, stream: ToneStream) -> None:
        self._check_owner()
        stream.over = True
        self._open.discard(stream)

    def unload(self) -> None:
        self._check_owner()
        self._loaded = False
        self._open.clear()
        if self._settings.fails_to_unload:
            raise RuntimeError("tone was told to fail to unload")

    def _check_owner(self) -> None:
        if threading.get_ident() != self._owner:
            raise RuntimeError("tone is used by a thread that didn't load it")
        if not self._loaded:
            raise RuntimeError("tone is used after its unload")

    def _speak(self, stream: ToneStream, from_char: int) -> None:
        """Make the sound of the text from there on."""
        rate_hz = self._settings.sample_rate_hz
        made = stream.samples.size
        sound, words = _voice_words(stream, from_char, made, rate_hz)
        stream.samples = np.concatenate((stream.samples, _with_fault(sound, stream.options, rate_hz)))
        stream.words += words

    def _advance(self, stream: ToneStream) -> Chunk | EngineError:
        if stream.over:
            return EngineError("the stream has ended")
        at_step = stream.steps == stream.options.at_step
        stream.steps += 1
        fault = stream.options.fault if at_step else None
        if fault == "raise":
            stream.over = True
            return EngineError("tone was told to fail")
        if fault == "stall":
            self._sleep(stream.options.stall_s)
        samples = self._take(stream)
        if fault == "nan" and samples.size:
            samples[samples.size // 2] = np.nan
        if fault == "beyond":
            samples *= 2 / _LEVEL
        first = stream.taken_samples - samples.size
        words = tuple(word for word in stream.words if first <= word[2] < stream.taken_samples)
        stream.over = stream.grown and stream.taken_samples == stream.samples.size
        said = stream.taken_samples == stream.samples.size
        return Chunk(samples, words, last=stream.over, wants_text=said and not stream.grown)

    def _take(self, stream: ToneStream) -> Samples:
        left = stream.samples.size - stream.taken_samples
        step_ms = self._settings.step_ms
        count = left if step_ms is None else min(left, round(step_ms * self._settings.sample_rate_hz / 1000))
        start = stream.taken_samples
        stream.taken_samples += count
        return stream.samples[start : stream.taken_samples].copy()

    def _spend(self, streams: Sequence[ToneStream], results: Sequence[Chunk | EngineError]) -> None:
        made = max((result.samples.size for result in results if isinstance(result, Chunk)), default=0)
        compute_s = made / self._settings.sample_rate_hz * self._settings.cost
        if any(stream.steps == 1 for stream in streams):
            compute_s += self._settings.first_step_s
        if compute_s:
            self._sleep(compute_s)


def _frequency_hz(request: Request, *, grows: bool) -> float:
    """Where text grows its first word decides: however much of it is there, it sounds the same."""
    if request.voice not in _VOICES_HZ:
        raise EngineError(f"tone has no voice {request.voice!r}")
    fixed_hz = _VOICES_HZ[request.voice]
    if fixed_hz is not None:
        return fixed_hz
    text = " ".join(request.text.split()[:1]) if grows else request.text
    digest = hashlib.sha256(f"{request.seed} {text}".encode()).digest()
    return float(_LOW_HZ + int.from_bytes(digest[:4], "big") % (_HIGH_HZ - _LOW_HZ))


def _voice_words(
    stream: ToneStream, from_char: int, at_sample: int, rate_hz: int
) -> tuple[Samples, tuple[Word, ...]]:
    """float32 [n] with a tone for each word, and where they are."""
    pieces: list[Samples] = []
    words: list[Word] = []
    gap = np.zeros(round(_GAP_S * rate_hz / stream.request.speed), np.float32)
    at = at_sample
    for match in _WORD.finditer(stream.request.text, from_char):
        count = round(len(match.group()) * _CHAR_S * rate_hz / stream.request.speed)
        words.append((match.start(), match.end(), at, at + count))
        pieces += [_sine(stream.frequency_hz, count, rate_hz), gap]
        at += count + gap.size
    return np.concatenate(pieces) if pieces else np.zeros(0, np.float32), tuple(words)


def _sine(frequency_hz: float, count: int, rate_hz: int) -> Samples:
    """float32 [count], faded at both ends."""
    phase = 2 * np.pi * frequency_hz / rate_hz * np.arange(count)
    fade = np.minimum(np.arange(count), np.arange(count)[::-1]) / (_FADE_S * rate_hz)
    return np.asarray(_LEVEL * np.sin(phase) * np.minimum(fade, 1), np.float32)


def _with_fault(sound: Samples, options: ToneOptions, rate_hz: int) -> Samples:
    """Faults that concern a segment's whole length."""
    match options.fault:
        case "nothing":
            return sound[:0]
        case "collapse":
            return sound[: round(0.05 * rate_hz)]
        case "runaway":
            noise = np.random.default_rng(0).uniform(-_LEVEL, _LEVEL, 120 * rate_hz)
            return np.concatenate((sound, noise.astype(np.float32)))
        case "silence_inside":
            return np.concatenate((sound, np.zeros(3 * rate_hz, np.float32), sound[: rate_hz // 2]))
        case "silent_tail":
            return np.concatenate((sound, np.zeros(5 * rate_hz, np.float32)))
        case _:
            return sound
