"""Pocket TTS: clones voices and speaks in steps of 80 ms, on a CPU."""

import hashlib
import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from engines import hub
from engines.contract import BuiltinVoice, EngineUnavailable, Facts, Info, OptionError, Source
from engines.installed import installed_version
from engines.option_checks import check_count, check_flag, check_number, read_settings

if TYPE_CHECKING:
    from engines.pocket_model import PocketModel

SAMPLE_RATE_HZ = 24000
FRAME_S = 0.08
_HUB_FILE = re.compile(
    r"^\s*(?P<name>\w+): *['\"]?hf://(?P<repo>[^/\s]+/[^/\s]+)/(?P<file>[^@\s'\"]+)(@(?P<revision>[^\s'\"]+))?",
    re.MULTILINE,
)
_DEFAULT = "english"
_TAGS = {
    "english": "en-US",
    "french": "fr",
    "german": "de",
    "portuguese": "pt",
    "italian": "it",
    "spanish": "es",
    "dutch": "nl",
}
_FIRST_VOICES = {
    "italian": "giovanni",
    "spanish": "lola",
    "german": "juergen",
    "portuguese": "rafael",
    "french": "estelle",
    "dutch": "daan",
}
_VOICES = """
alba anna azelma bill_boerst caro_davy charles cosette daan eponine estelle eve fantine george giovanni jane javert
jean juergen lola marius mary michael paul peter_yearsley rafael stuart_bell vera
"""
"""Those that the library has ready for each of its languages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PocketOptions:
    """Of one request."""

    temperature: float | None = None
    """More of it: livelier and less sure; None: the checkpoint's own."""

    def __post_init__(self) -> None:
        if self.temperature is not None:
            check_number("temperature", self.temperature, 0, 1.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class PocketSettings:
    language: str = _DEFAULT
    """One of the library's models, `french` or `english_18m_2026-10`; of an own checkpoint the language alone."""
    voices: Mapping[str, str] = field(default_factory=dict)
    """Names for recordings or exported states (.safetensors); an own checkpoint has no others."""
    int8: bool = False
    """Half the memory and a quarter faster."""
    threads: int = 1
    """The library's own choice: more are slower unless the machine has nothing else to do."""

    @classmethod
    def from_source(cls, source: Source) -> Self:
        return read_settings(cls, source, "pocket")

    def __post_init__(self) -> None:
        if str(self.language).partition("_")[0] not in _TAGS:
            raise OptionError("language", f"must be one of {', '.join(_TAGS)}, or a model of one")
        voices: Any = self.voices
        if not isinstance(voices, Mapping):
            raise OptionError("voices", "must be a table of names and files")
        for name, file in self.voices.items():
            if not Path(str(file)).expanduser().is_file():
                raise OptionError("voices", f"the voice {name!r} has no file {file}")
        check_flag("int8", self.int8)
        check_count("threads", self.threads, 1, 64)

    @property
    def family(self) -> str:
        return self.language.partition("_")[0]

    @property
    def files(self) -> dict[str, Path]:
        return {name: Path(file).expanduser() for name, file in self.voices.items()}


class PocketEngine:
    """`Source.path`: the YAML file of an own checkpoint; the rest is in PocketSettings."""

    @property
    def info(self) -> Info:
        return Info(
            name="pocket",
            version=installed_version("pocket-tts"),
            extra="pocket",
            devices=frozenset({"cpu", "cuda"}),
            languages={},
            voices=(),
            clones=frozenset({"audio"}),
            options=PocketOptions,
        )

    def identify(self, source: Source) -> Facts:
        settings = PocketSettings.from_source(source)
        tag = _TAGS[settings.family]
        voices = _voices(source, settings)
        if not voices:
            raise OptionError(
                "voices", 'an own checkpoint needs a voice: voices = { anna = "/path/anna.wav" }'
            )
        return Facts(
            checkpoint=_digest(source, settings, self.info.version),
            sample_rate_hz=SAMPLE_RATE_HZ,
            step_s=FRAME_S,
            max_chars=400,
            sampling=True,
            languages={tag: settings.family},
            voices=tuple(BuiltinVoice(name, _label(name), tag) for name in voices),
        )

    def fetch(self, source: Source) -> None:
        """What the library would fetch while it loads, and more quietly."""
        files = _on_hub(_config(source, PocketSettings.from_source(source)).read_text("utf-8"))
        spare = files.pop("weights_path_without_voice_cloning", None)
        for name, place in files.items():
            try:
                hub.fetch(*place, engine="pocket")
            except EngineUnavailable:
                if name != "weights_path" or spare is None:
                    raise
                hub.fetch(*spare, engine="pocket")

    def load(self, source: Source, device: str) -> "PocketModel":
        if device not in self.info.devices:
            raise EngineUnavailable(f"pocket runs on the CPU or on CUDA, not on {device!r}")
        settings = PocketSettings.from_source(source)
        from engines.pocket_model import PocketModel

        config = _config(source, settings)
        return PocketModel(
            config if source.path is not None else None,
            model=settings.language,
            device=device,
            int8=settings.int8,
            threads=settings.threads,
            files=settings.files,
            names=_voices(source, settings),
        )


engine = PocketEngine()


def _voices(source: Source, settings: PocketSettings) -> list[str]:
    if source.path is not None:
        return list(settings.voices)
    first = _FIRST_VOICES.get(settings.family, "alba")
    known = [first, *(name for name in _VOICES.split() if name != first)]
    return [*settings.voices, *(name for name in known if name not in settings.voices)]


def _label(name: str) -> str:
    return name.replace("_", " ").title()


def _config(source: Source, settings: PocketSettings) -> Path:
    """Raises EngineUnavailable, or OptionError for a model that the library doesn't have."""
    if source.path is not None:
        path = Path(source.path).expanduser()
        if not path.is_file():
            raise EngineUnavailable(f"pocket's checkpoint {path} isn't there")
        return path
    spec = importlib.util.find_spec("pocket_tts")
    if spec is None or spec.origin is None:
        raise EngineUnavailable("pocket-tts can't be found")
    folder = Path(spec.origin).with_name("config")
    path = folder / f"{settings.language}.yaml"
    if not path.is_file():
        models = ", ".join(sorted(file.stem for file in folder.glob(f"{settings.family}*.yaml")))
        raise OptionError("language", f"pocket-tts has no {settings.language!r}; it has {models}")
    return path


def _digest(source: Source, settings: PocketSettings, library: str) -> str:
    """The library's own configurations name exact revisions of their weights."""
    config = _config(source, settings)
    text = config.read_text("utf-8")
    digest = hashlib.sha256(f"{library} {settings.int8}\n{text}".encode())
    files = [*_weights(text), *settings.files.values()]
    for file in files:
        if file.is_file():
            state = file.stat()
            digest.update(_sha256(file, state.st_size, state.st_mtime_ns).encode())
    return digest.hexdigest()[:32]


def _weights(config: str) -> list[Path]:
    """Files that a configuration names; what is on the hub has its revision in the text."""
    values = [line.partition(":")[2].strip().strip("'\"") for line in config.splitlines() if "path" in line]
    return [Path(value) for value in values if value and "://" not in value]


def _on_hub(config: str) -> dict[str, tuple[str, str, str]]:
    """Repository, file and revision of what a configuration names there, by its own word for it."""
    found = _HUB_FILE.finditer(config)
    return {match["name"]: (match["repo"], match["file"], match["revision"] or "main") for match in found}


_digests: dict[tuple[Path, int, int], str] = {}


def _sha256(file: Path, size_bytes: int, changed_ns: int) -> str:
    """Read again only when the file has changed."""
    key = (file, size_bytes, changed_ns)
    if key not in _digests:
        with file.open("rb") as opened:
            _digests[key] = hashlib.file_digest(opened, "sha256").hexdigest()
    return _digests[key]
