"""The embedded default: hibari, English, 8 MB of weights in its wheel, 145x real time on one CPU thread."""

import gc
import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

import numpy as np

from engines import downloads
from engines.background import Background
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
    Source,
    Word,
)
from engines.downloads import Download
from engines.installed import installed_version
from engines.onnx_outputs import input_of, with_int64_output
from voices.reference import Reference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnxruntime import InferenceSession

    from engines.hibari_signal import Noise, WindowedSynth
    from engines.hibari_text import Reader, Utterable

log = logging.getLogger(__name__)

_SAMPLE_RATE_HZ = 24000
_WINDOW_FRAMES = (48, 96, 192)
"""Frames of 12.5 ms: 0.6 s (about half of it the silence before the first word), then 1.2 s, then 2.4 s each:
smaller ones cost more and nobody waits for them."""
_UNIT_SAMPLES = 600
"""The network's durations count 25 ms."""
_BUNDLED = "heart"
_VOICES = (
    BuiltinVoice(_BUNDLED, "Heart", "en-US"),
    BuiltinVoice("kore", "Kore", "en-US"),
    BuiltinVoice("fenrir", "Fenrir", "en-US"),
    BuiltinVoice("emma", "Emma", "en-GB"),
    BuiltinVoice("fable", "Fable", "en-GB"),
)


class HibariEngine:
    """Settings: `voices`, names to fetch and load at start; the others load when they are first used.

    `Source.path` replaces the bundled voice's network by another export of it.
    """

    @property
    def info(self) -> Info:
        return Info(
            name="hibari",
            version=installed_version("hibari-tts"),
            extra=None,
            devices=frozenset({"cpu"}),
            languages={"en-US": "en-US", "en-GB": "en-GB", "en": "en-US"},
            scripts=frozenset({"Latin"}),
            voices=_VOICES,
        )

    def identify(self, source: Source) -> Facts:
        _fetched_at_start(source)
        digest = hashlib.sha256(self.info.version.encode())
        for voice, known in sorted(_registry().items()):
            own = source.path if voice == _BUNDLED else None
            digest.update(f"{voice} {known['sha256'] if own is None else _sha256(own)}\n".encode())
        return Facts(
            checkpoint=digest.hexdigest()[:32],
            sample_rate_hz=_SAMPLE_RATE_HZ,
            step_s=1.2,
            speed=(0.5, 2.0),
            max_chars=400,
            exact_words=True,
        )

    def load(self, source: Source, device: str) -> "HibariModel":
        if device != "cpu":
            raise EngineUnavailable(f"hibari runs on the CPU, not on {device!r}")
        model = HibariModel(source.path)
        for name in _fetched_at_start(source):
            model.fetch(name)
        return model


engine = HibariEngine()


@dataclass(frozen=True, slots=True)
class _Voice:
    session: "InferenceSession"
    reader: "Reader"


@dataclass(slots=True, eq=False)
class HibariStream:
    request: Request
    voice: _Voice | None = None
    fetch: Background[_Voice] | None = None
    pending: "Iterator[Utterable] | None" = None
    upcoming: "Utterable | None" = None
    synth: "WindowedSynth | None" = None
    noise: "Noise | None" = None
    windows: int = 0
    made_samples: int = 0
    over: bool = False


class HibariModel:
    """One network for each voice that was used. Streams share nothing that changes: any number can be open."""

    def __init__(self, path: str | None) -> None:
        try:
            self._voices = {_BUNDLED: _load_voice(_BUNDLED, path)}
        except Exception as error:
            raise EngineUnavailable(f"hibari couldn't be loaded: {error}") from error
        self._fetches: dict[str, Background[_Voice]] = {}
        self._warm_up()

    def _warm_up(self) -> None:
        """Once through every part, that for unknown words too, which the library would load at its first one."""
        text = "Warm up, quickly: one zyxqva, then the largest buffers that an ordinary sentence needs."
        stream = self.start(Request(text=text, language="en-US", voice=_BUNDLED), None)
        while not stream.over:
            self.step([stream])

    def fetch(self, name: str) -> None:
        """Begin to load a voice, unless it is there or on its way."""
        if name not in self._voices and name not in self._fetches:
            self._fetches[name] = Background(f"hibari's voice {name!r}", partial(_load_voice, name, None))

    def prepare(self, reference: Reference, mode: CloneMode) -> bytes:
        raise EngineError(f"hibari clones no voices ({mode}, {reference.samples.size} samples)")

    def restore(self, prompt: bytes) -> Never:
        raise EngineError(f"hibari has no prompts ({len(prompt)} bytes)")

    def start(self, request: Request, prompt: None) -> HibariStream:
        del prompt
        if request.voice not in _registry():
            raise EngineError(f"hibari has no voice {request.voice!r}")
        stream = HibariStream(request)
        stream.voice = self._voices.get(request.voice)
        if stream.voice is None:
            self.fetch(request.voice)
            stream.fetch = self._fetches[request.voice]
        return stream

    def extend(self, stream: HibariStream, text: str, last: bool) -> None:
        raise EngineError(
            f"hibari's streams don't grow ({stream.request.voice}, {len(text)} characters, {last=})"
        )

    def step(self, streams: Sequence[HibariStream]) -> Sequence[Chunk | EngineError]:
        return [self._advance(stream) for stream in streams]

    def close(self, stream: HibariStream) -> None:
        stream.over = True
        stream.voice = stream.fetch = stream.pending = stream.upcoming = stream.synth = None

    def unload(self) -> None:
        self._voices.clear()
        self._fetches.clear()
        gc.collect()

    def _advance(self, stream: HibariStream) -> Chunk | EngineError:
        if stream.over:
            return EngineError("the stream has ended")
        try:
            if stream.voice is None and not self._await_voice(stream):
                return Chunk(np.zeros(0, np.float32))
            return self._speak(stream)
        except EngineError as error:
            stream.over = True
            return error

    def _await_voice(self, stream: HibariStream) -> bool:
        """False: not yet, after a moment; a loaded voice is kept."""
        fetch = stream.fetch
        if fetch is None:
            raise EngineError("the stream has ended")
        name = stream.request.voice
        try:
            voice = fetch.wait()
        finally:
            if fetch.over:
                self._fetches.pop(name, None)
        if voice is None:
            return False
        stream.voice = self._voices.setdefault(name, voice)
        return True

    def _speak(self, stream: HibariStream) -> Chunk:
        if stream.voice is None:
            raise EngineError("the stream has no voice")
        if stream.pending is None:
            stream.pending = stream.voice.reader.read(stream.request.text)
            stream.upcoming = next(stream.pending, None)
        if stream.synth is not None:
            return self._next_window(stream, ())
        if stream.upcoming is None:
            stream.over = True
            return Chunk(np.zeros(0, np.float32), last=True)
        words = self._run_network(stream, stream.upcoming)
        stream.upcoming = next(stream.pending, None)
        return self._next_window(stream, words)

    def _run_network(self, stream: HibariStream, utterable: "Utterable") -> tuple[Word, ...]:
        from engines.hibari_signal import Noise, Spectrum, WindowedSynth

        if stream.voice is None:
            raise EngineError("the stream has no voice")
        stream.noise = stream.noise or Noise(stream.request.seed)
        feed = {
            "ids": np.asarray([utterable.ids], np.int64),
            "speed": np.asarray([stream.request.speed], np.float32),
        }
        *parts, units = stream.voice.session.run(None, feed)
        stream.synth = WindowedSynth(Spectrum.kept([part[0] for part in parts]), stream.noise)
        starts = np.concatenate(([0], np.cumsum(units))) * _UNIT_SAMPLES + stream.made_samples
        return tuple(
            (word.start_char, word.end_char, int(starts[word.first_id]), int(starts[word.end_id]))
            for word in utterable.words
        )

    def _next_window(self, stream: HibariStream, words: tuple[Word, ...]) -> Chunk:
        synth = stream.synth
        if synth is None:
            raise EngineError("the stream has nothing to speak")
        frames = _WINDOW_FRAMES[min(stream.windows, len(_WINDOW_FRAMES) - 1)]
        left = synth.frames - synth.taken_frames
        samples = synth.take(left if left < 1.5 * frames else frames)
        stream.windows += 1
        stream.made_samples += samples.size
        if synth.taken_frames == synth.frames:
            stream.synth = None
            stream.over = stream.upcoming is None
        return Chunk(samples, words, last=stream.over)


def _fetched_at_start(source: Source) -> Sequence[str]:
    """The setting `voices`. Raises OptionError."""
    for name in source.settings:
        if name != "voices":
            raise OptionError(name, "hibari has no such setting; it has voices")
    names = source.settings.get("voices", ())
    known = [voice.voice_id for voice in _VOICES]
    if isinstance(names, str) or not isinstance(names, Sequence) or any(name not in known for name in names):
        raise OptionError("voices", f"must be a list of {', '.join(known)}")
    return names


@cache
def _registry() -> dict[str, dict[str, Any]]:
    """The library's voices by name, as its own file describes them."""
    try:
        from hibari.voices import VOICES
    except ImportError as error:
        raise EngineUnavailable(f"hibari couldn't be imported: {error}") from error
    voices: dict[str, dict[str, Any]] = VOICES
    return voices


@cache
def _sha256(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise EngineUnavailable(f"{path} can't be read: {error.strerror}") from error


def _load_voice(name: str, path: str | None) -> _Voice:
    """Fetches the voice's network if it isn't in the library's cache; raises what the library raises."""
    from hibari.g2p import G2P
    from hibari.voices import ASSETS, VOICES

    from engines.hibari_text import Reader

    network = Path(path or _fetched(name)).read_bytes()
    session = _session(with_int64_output(network, input_of(network, "CumSum")))
    vocabulary = json.loads(Path(ASSETS, "vocab.json").read_bytes())
    return _Voice(session, Reader(G2P(british=VOICES[name]["british"]), vocabulary))


def _fetched(name: str) -> str:
    """The library says nothing on the way: what it fetches is told of when it begins and when it is over."""
    from hibari.voices import voice_path

    try:
        return str(voice_path(name, download_missing=False))
    except FileNotFoundError:
        known = _registry()[name]
    voice = Download(engine="hibari", file=known["file"], total_bytes=known["bytes"])
    log.info("fetching %s: %.0f MB", voice.file, known["bytes"] / 1e6)
    downloads.tell(voice)
    try:
        return str(voice_path(name))
    finally:
        downloads.tell(replace(voice, over=True))


def _session(network: bytes) -> "InferenceSession":
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Every length of text asks for blocks of its own size: an arena spreads over more and more memory for hours.
    options.enable_cpu_mem_arena = False
    return onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"])
