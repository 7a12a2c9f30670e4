"""Piper's voices: a sentence is read at once and spoken window by window, so that it is heard before it is made."""

import gc
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Never

import numpy as np
from numpy.typing import NDArray

from engines.background import Background
from engines.contract import (
    Chunk,
    CloneMode,
    EngineError,
    EngineUnavailable,
    Facts,
    Info,
    Request,
    Samples,
    Source,
)
from engines.espeak import Espeak, program
from engines.installed import installed_version
from engines.vits_graph import NOISE, STRIDE, Halves, cut
from engines.vits_text import Reader
from engines.vits_voice import Config, VitsSettings, Voice, read_voices
from voices.reference import Reference

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from soxr import ResampleStream

_WINDOW_FRAMES = (24, 48, 96)
"""At 22 050 Hz a frame is 11.6 ms: 0.28 s, then 0.56 s, then 1.1 s each."""
_MARGIN_FRAMES = 16
"""How far the vocoder hears: 10 to 12 frames to each side, by its kernels and by measurement."""
_NOISE_PER_ID = 2048
"""192 values a frame, 2 to 3 frames an id at the usual speed; the bank goes round beyond."""


class VitsEngine:
    """`Source.path`: a voice's .onnx file or a folder of them; the settings are in VitsSettings."""

    @property
    def info(self) -> Info:
        return Info(
            name="vits",
            version=installed_version("streaming-vits"),
            extra="vits",
            devices=frozenset({"cpu"}),
            languages={},
            voices=(),
        )

    def identify(self, source: Source) -> Facts:
        settings = VitsSettings.from_source(source)
        program()
        voices = read_voices(source, settings)
        digest = sha256(self.info.version.encode())
        for voice in voices:
            digest.update(f"{voice.name} {voice.digest()}\n".encode())
        return Facts(
            checkpoint=digest.hexdigest()[:32],
            sample_rate_hz=max(voice.sample_rate_hz for voice in voices),
            step_s=1.1,
            speed=(0.5, 2.0),
            max_chars=400,
            sampling=True,
            languages={voice.language: voice.language for voice in voices},
            voices=tuple(builtin for voice in voices for builtin in voice.builtin()),
        )

    def fetch(self, source: Source) -> None:
        read_voices(source, VitsSettings.from_source(source))[0].fetched()

    def load(self, source: Source, device: str) -> "VitsModel":
        if device != "cpu":
            raise EngineUnavailable(f"vits runs on the CPU, not on {device!r}")
        settings = VitsSettings.from_source(source)
        voices = read_voices(source, settings)
        return VitsModel(voices, settings)


engine = VitsEngine()


@dataclass(frozen=True, slots=True)
class _Loaded:
    """Its sessions can be used by any thread; its espeak-ng by one, the lane's."""

    config: Config
    halves: Halves
    reading: "InferenceSession"
    vocoding: "InferenceSession"
    reader: Reader
    espeak: Espeak | None

    def read(self, ids: list[int], speaker: int, request: Request, draw: np.random.Generator) -> "_Spoken":
        scales = (self.config.noise, self.config.length * _length(request.speed), self.config.rhythm)
        feed = {
            "input": np.asarray([ids], np.int64),
            "input_lengths": np.asarray([len(ids)], np.int64),
            "scales": np.asarray(scales, np.float32),
            "sid": np.asarray([speaker], np.int64),
            NOISE: draw.standard_normal(2 * STRIDE + _NOISE_PER_ID * len(ids), dtype=np.float32),
        }
        frames, *tone = self.reading.run(None, {name: feed[name] for name in self.halves.inputs})
        return _Spoken(frames, tone[0] if tone else None)

    def sound(self, spoken: "_Spoken", start: int, end: int) -> Samples:
        """Of the frames from start to end, with those around them that it depends on."""
        first = max(0, start - _MARGIN_FRAMES)
        feed = {self.halves.frames: spoken.frames[:, :, first : end + _MARGIN_FRAMES]}
        if self.halves.speaker is not None and spoken.tone is not None:
            feed[self.halves.speaker] = spoken.tone
        (samples,) = self.vocoding.run(None, feed)
        hop = self.halves.hop_samples
        found = np.asarray(samples, np.float32).reshape(-1)[(start - first) * hop : (end - first) * hop]
        return np.clip(found, -1, 1)


def _length(speed: float) -> float:
    """The network rounds each id's frames up, half a frame of about 2.5 on average, whatever they are scaled by."""
    return 1.3 / speed - 0.3


@dataclass(slots=True)
class _Spoken:
    """One run of the network, vocoded up to `taken`."""

    frames: NDArray[np.float32]
    """float32 [1, channels, frames]"""
    tone: NDArray[np.float32] | None
    """The speaker's, where there are several."""
    taken: int = 0

    @property
    def left(self) -> int:
        return int(self.frames.shape[2]) - self.taken


@dataclass(slots=True, eq=False)
class VitsStream:
    request: Request
    name: str
    speaker: str
    voice: _Loaded | None = None
    runs: list[list[int]] | None = None
    """Ids still to be read."""
    spoken: _Spoken | None = None
    draw: np.random.Generator = field(default_factory=np.random.default_rng)
    resampling: "ResampleStream | None" = None
    windows: int = 0
    over: bool = False


class VitsModel:
    """The first voice is loaded with it, the others when they are first used. Any number of streams can be open."""

    def __init__(self, voices: Sequence[Voice], settings: VitsSettings) -> None:
        self._voices = {voice.name: voice for voice in voices}
        self._settings = settings
        self._rate_hz = max(voice.sample_rate_hz for voice in voices)
        first = voices[0].fetched()
        self._loaded = {first.name: _load(first, settings)}
        self._loading: dict[str, Background[_Loaded]] = {}

    def prepare(self, reference: Reference, mode: CloneMode) -> bytes:
        raise EngineError(f"vits clones no voices ({mode}, {reference.samples.size} samples)")

    def restore(self, prompt: bytes) -> Never:
        raise EngineError(f"vits has no prompts ({len(prompt)} bytes)")

    def start(self, request: Request, prompt: None) -> VitsStream:
        del prompt
        name, _, speaker = request.voice.partition(":")
        voice = self._voices.get(name)
        if voice is None:
            raise EngineError(f"vits has no voice {request.voice!r}")
        stream = VitsStream(request, name, speaker, self._loaded.get(name))
        stream.draw = np.random.default_rng(request.seed)
        if stream.voice is None and name not in self._loading:
            settings = self._settings
            self._loading[name] = Background(
                f"vits' voice {name!r}", lambda: _load(voice.fetched(), settings)
            )
        return stream

    def extend(self, stream: VitsStream, text: str, last: bool) -> None:
        raise EngineError(f"vits' streams don't grow ({stream.name}, {len(text)} characters, {last=})")

    def step(self, streams: Sequence[VitsStream]) -> Sequence[Chunk | EngineError]:
        return [self._advance(stream) for stream in streams]

    def close(self, stream: VitsStream) -> None:
        stream.over = True
        stream.voice = stream.spoken = stream.resampling = stream.runs = None

    def unload(self) -> None:
        for loaded in self._loaded.values():
            if loaded.espeak is not None:
                loaded.espeak.close()
        self._loaded.clear()
        self._loading.clear()
        gc.collect()

    def _advance(self, stream: VitsStream) -> Chunk | EngineError:
        if stream.over:
            return EngineError("the stream has ended")
        try:
            if stream.voice is None:
                stream.voice = self._await(stream.name)
            if stream.voice is None:
                return Chunk(np.zeros(0, np.float32))
            return self._speak(stream, stream.voice)
        except EngineError as error:
            stream.over = True
            return error

    def _await(self, name: str) -> _Loaded | None:
        if name not in self._loaded:
            try:
                found = self._loading[name].wait()
            except EngineError:
                if self._loading[name].over:
                    del self._loading[name]
                raise
            if found is None:
                return None
            self._loaded[name] = found
            del self._loading[name]
        return self._loaded[name]

    def _speak(self, stream: VitsStream, voice: _Loaded) -> Chunk:
        if stream.runs is None:
            stream.runs = voice.reader.read(stream.request.text)
        if stream.spoken is None:
            if not stream.runs:
                stream.over = True
                return Chunk(np.zeros(0, np.float32), last=True)
            speaker = _speaker_number(stream, voice.config)
            stream.spoken = voice.read(stream.runs.pop(0), speaker, stream.request, stream.draw)
        return self._next_window(stream, voice, stream.spoken)

    def _next_window(self, stream: VitsStream, voice: _Loaded, spoken: _Spoken) -> Chunk:
        frames = _WINDOW_FRAMES[min(stream.windows, len(_WINDOW_FRAMES) - 1)]
        end = spoken.taken + (spoken.left if spoken.left < 1.5 * frames else frames)
        samples = voice.sound(spoken, spoken.taken, end)
        spoken.taken = end
        stream.windows += 1
        if not spoken.left:
            stream.spoken = None
            stream.over = not stream.runs
        return Chunk(self._at_our_rate(stream, samples, voice.config.sample_rate_hz), last=stream.over)

    def _at_our_rate(self, stream: VitsStream, samples: Samples, rate_hz: int) -> Samples:
        if rate_hz == self._rate_hz:
            return samples
        if stream.resampling is None:
            from soxr import ResampleStream

            stream.resampling = ResampleStream(rate_hz, self._rate_hz, 1, dtype="float32")
        found = stream.resampling.resample_chunk(samples, last=stream.over)
        return np.clip(np.asarray(found, np.float32), -1, 1)


def _speaker_number(stream: VitsStream, config: Config) -> int:
    if not stream.speaker:
        return 0
    if stream.speaker not in config.speakers:
        raise EngineError(f"vits' voice {stream.name!r} has no speaker {stream.speaker!r}")
    return config.speakers[stream.speaker]


def _load(voice: Voice, settings: VitsSettings) -> _Loaded:
    if voice.network is None or voice.config is None:
        raise EngineUnavailable(f"vits' voice {voice.name!r} isn't here")
    halves = cut(voice.network, settings.cache_folder)
    espeak = None if voice.config.espeak_voice is None else Espeak(voice.config.espeak_voice)
    reader = Reader(espeak, voice.config.ids, voice.config.language.partition("-")[0])
    reading, vocoding = (_session(half, settings.threads) for half in (halves.reader, halves.vocoder))
    loaded = _Loaded(voice.config, halves, reading, vocoding, reader, espeak)
    _warm_up(loaded)
    return loaded


def _session(network: Any, threads: int) -> "InferenceSession":
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(network), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise EngineUnavailable(f"{network} can't be loaded: {error}") from error


def _warm_up(loaded: _Loaded) -> None:
    """Once through every part, so that the first listener doesn't pay for their beginnings."""
    runs = loaded.reader.read("1, 2.")
    if runs:
        request = Request(text="", language="", voice="")
        spoken = loaded.read(runs[0], 0, request, np.random.default_rng(0))
        loaded.sound(spoken, 0, min(_WINDOW_FRAMES[0], spoken.left))
