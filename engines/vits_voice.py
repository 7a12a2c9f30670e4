"""Which of Piper's voices there are, and what is known of each from its own file."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from engines import hub
from engines.contract import BuiltinVoice, EngineUnavailable, OptionError, Source
from engines.option_checks import check_count, read_settings
from engines.vits_graph import default_cache

HUB_REPO = "rhasspy/piper-voices"
HUB_REVISION = "v1.0.0"
_NAME = re.compile(r"([a-z]{2,3})_([A-Z]{2})-(\w+)-(x_low|low|medium|high)")
_LOW_RATE_HZ, _RATE_HZ = 16000, 22050
_LOWEST_HZ, _HIGHEST_HZ = 8000, 48_000
_ESPEAK_VOICE = re.compile(r"[a-zA-Z][\w+-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class VitsSettings:
    voices: tuple[str, ...] = ()
    """Names of Piper's, fetched when they are first used, or files."""
    cache: str | None = None
    """Where a network's halves are kept."""
    revision: str = HUB_REVISION
    """Of the voices on the hub; of a branch or tag what it was when it was first fetched."""
    threads: int = 1

    @classmethod
    def from_source(cls, source: Source) -> Self:
        settings = read_settings(cls, source, "vits")
        return replace(settings, voices=tuple(map(str, settings.voices)))

    def __post_init__(self) -> None:
        voices: Any = self.voices
        if isinstance(voices, str) or not isinstance(voices, Sequence):
            raise OptionError("voices", "must be a list of names and files")
        check_count("threads", self.threads, 1, 64)
        revision: Any = self.revision
        if not isinstance(revision, str):
            raise OptionError("revision", "must be a commit, a tag or a branch")

    @property
    def cache_folder(self) -> Path:
        return Path(self.cache).expanduser() if self.cache else default_cache()


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What a voice's JSON file says."""

    sample_rate_hz: int
    language: str
    """BCP-47"""
    espeak_voice: str | None
    """None: the voice was trained on letters."""
    ids: Mapping[str, Sequence[int]]
    noise: float
    length: float
    rhythm: float
    speakers: Mapping[str, int]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Raises EngineUnavailable."""
        try:
            return cls._parse(json.loads(path.read_text("utf-8")))
        except OSError as error:
            raise EngineUnavailable(f"{path} can't be read: {error.strerror}") from error
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise EngineUnavailable(f"{path} isn't a Piper voice's file: {error!r}") from error

    @classmethod
    def _parse(cls, known: Any) -> Self:
        kind = known.get("phoneme_type", "espeak")
        if kind not in {"espeak", "text"}:
            raise ValueError(f"phonemes of the type {kind!r} aren't supported")
        espeak_voice = str(known["espeak"]["voice"])
        if not _ESPEAK_VOICE.fullmatch(espeak_voice):
            raise ValueError(f"no espeak-ng voice: {espeak_voice!r}")
        sample_rate_hz = int(known["audio"]["sample_rate"])
        if not _LOWEST_HZ <= sample_rate_hz <= _HIGHEST_HZ:
            raise ValueError(f"no rate: {sample_rate_hz} Hz")
        inference = known.get("inference", {})
        code = known.get("language", {}).get("code") or espeak_voice
        return cls(
            sample_rate_hz=sample_rate_hz,
            language=str(code).replace("_", "-"),
            espeak_voice=espeak_voice if kind == "espeak" else None,
            ids={
                str(symbol): [int(number) for number in ids]
                for symbol, ids in known["phoneme_id_map"].items()
            },
            noise=float(inference.get("noise_scale", 0.667)),
            length=float(inference.get("length_scale", 1.0)),
            rhythm=float(inference.get("noise_w", 0.8)),
            speakers={str(name): int(number) for name, number in (known.get("speaker_id_map") or {}).items()},
        )


@dataclass(frozen=True, slots=True)
class Voice:
    """One network; with several speakers the first is meant where none is named."""

    name: str
    network: Path | None
    """None: still on the hub."""
    config: Config | None
    revision: str = HUB_REVISION

    @property
    def sample_rate_hz(self) -> int:
        if self.config is not None:
            return self.config.sample_rate_hz
        return _LOW_RATE_HZ if self.name.endswith("low") else _RATE_HZ

    @property
    def language(self) -> str:
        return (
            self.config.language if self.config is not None else self.name.partition("-")[0].replace("_", "-")
        )

    def builtin(self) -> list[BuiltinVoice]:
        label = self.name.split("-")[1].capitalize() if self.name.count("-") > 1 else self.name
        found = [BuiltinVoice(self.name, label, self.language)]
        speakers = {} if self.config is None else self.config.speakers
        if len(speakers) > 1:
            found += [
                BuiltinVoice(f"{self.name}:{name}", f"{label} {name}", self.language) for name in speakers
            ]
        return found

    def digest(self) -> str:
        if self.network is None:
            return f"{HUB_REPO} {self.revision} {self.name}"
        return _sha256(self.network) + _sha256(config_of(self.network))

    def fetched(self) -> Self:
        """Raises EngineUnavailable."""
        if self.network is not None:
            return self
        network, config = (
            hub.fetch(HUB_REPO, file, self.revision, engine="vits") for file in _hub_files(self.name)
        )
        return type(self)(self.name, network, Config.read(config))


def read_voices(source: Source, settings: VitsSettings) -> list[Voice]:
    """Raises EngineUnavailable, or OptionError for a voice that isn't there."""
    found: dict[str, Voice] = {}
    if source.path is not None:
        for network in _networks(Path(source.path).expanduser()):
            found.setdefault(network.stem, _local(network))
    for named in settings.voices:
        if _NAME.fullmatch(named):
            found.setdefault(named, _on_hub(named, settings.revision))
        elif Path(named).expanduser().is_file():
            network = Path(named).expanduser()
            found.setdefault(network.stem, _local(network))
        else:
            raise OptionError("voices", f"{named!r} is neither a file nor a name such as en_US-lessac-medium")
    if not found:
        raise EngineUnavailable(
            "vits has no voice: set engines.vits.path to a Piper voice's .onnx file or a folder of them, "
            'or engines.vits.voices to names such as ["en_US-lessac-medium"]'
        )
    return list(found.values())


def config_of(network: Path) -> Path:
    return network.with_name(network.name + ".json")


def _networks(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    found = sorted(file for file in path.glob("*.onnx") if config_of(file).exists())
    if not found:
        raise EngineUnavailable(f"{path} has no Piper voice: NAME.onnx beside NAME.onnx.json")
    return found


def _local(network: Path) -> Voice:
    return Voice(network.stem, network, Config.read(config_of(network)))


def _on_hub(name: str, revision: str) -> Voice:
    commit = hub.commit_of(HUB_REPO, revision)
    network, config = (hub.cached(HUB_REPO, file, commit) for file in _hub_files(name))
    if network is None or config is None:
        return Voice(name, None, None, commit)
    return Voice(name, network, Config.read(config))


def _hub_files(name: str) -> tuple[str, str]:
    found = _NAME.fullmatch(name)
    if found is None:
        raise EngineUnavailable(f"{name!r} isn't the name of a Piper voice")
    family, region, speaker, quality = found.groups()
    file = f"{family}/{family}_{region}/{speaker}/{quality}/{name}.onnx"
    return file, f"{file}.json"


_digests: dict[tuple[Path, int, int], str] = {}


def _sha256(path: Path) -> str:
    """Read again only when the file has changed."""
    try:
        state = path.stat()
        key = (path, state.st_size, state.st_mtime_ns)
        if key not in _digests:
            with path.open("rb") as file:
                _digests[key] = hashlib.file_digest(file, "sha256").hexdigest()
        return _digests[key]
    except OSError as error:
        raise EngineUnavailable(f"{path} can't be read: {error.strerror}") from error
