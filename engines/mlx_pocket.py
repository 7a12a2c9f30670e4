"""Pocket TTS on MLX: clones voices and speaks in frames of 80 ms."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engines.contract import BuiltinVoice, EngineUnavailable, Facts, Info, OptionError, Source
from engines.digest import sound_digest
from engines.mlx_prompts import tensor_names
from engines.mlx_runtime import DEVICES, installed_versions, unsupported
from engines.mlx_settings import (
    SUFFIXES,
    MlxSettings,
    check_device,
    checkpoint_folder,
    footprint_bytes,
    read_config,
)
from engines.option_checks import check_number, read_settings

if TYPE_CHECKING:
    from engines.mlx_pocket_model import PocketModel

NAME = "mlx-pocket"
FRAME_S = 0.08
LANGUAGES = {
    "english": "en-US",
    "french": "fr",
    "german": "de",
    "portuguese": "pt",
    "italian": "it",
    "spanish": "es",
    "dutch": "nl",
}
_TOKENIZERS = ("tokenizer.model", "tokenizer.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class PocketOptions:
    """Of one request."""

    temperature: float | None = None
    """More of it: livelier and less sure; None: the checkpoint's own."""

    def __post_init__(self) -> None:
        if self.temperature is not None:
            check_number("temperature", self.temperature, 0, 1.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class PocketSettings(MlxSettings):
    """`voices` are recordings, or exported voices (.safetensors), beside those in the checkpoint's folder."""

    language: str = "english"
    """That the checkpoint speaks."""

    def __post_init__(self) -> None:
        super(PocketSettings, self).__post_init__()
        if self.language not in LANGUAGES:
            raise OptionError("language", f"must be one of {', '.join(LANGUAGES)}")


class PocketEngine:
    """`Source.path`: the folder of a checkpoint; the rest is in PocketSettings."""

    @property
    def unsupported(self) -> str | None:
        return unsupported()

    @property
    def info(self) -> Info:
        return Info(
            name=NAME,
            version=installed_versions(),
            extra="mlx",
            devices=DEVICES,
            languages={},
            voices=(),
            clones=frozenset({"audio"}),
            options=PocketOptions,
        )

    def identify(self, source: Source) -> Facts:
        settings = read_settings(PocketSettings, source, NAME)
        folder = checkpoint_folder(NAME, source)
        config = read_config(NAME, folder, ["pocket_tts", "gradium_phonon_tts"])
        tag = LANGUAGES[settings.language]
        names = voice_files(folder, settings)
        if not names:
            raise OptionError("voices", 'this checkpoint needs a voice: voices = { anna = "/path/anna.wav" }')
        return Facts(
            checkpoint=_digest(folder, settings, self.info.version),
            sample_rate_hz=(config.get("mimi") or {}).get("sample_rate", 24000),
            step_s=FRAME_S * settings.frames_per_step,
            max_chars=300,
            sampling=True,
            footprint_bytes=footprint_bytes(folder, settings),
            languages={tag: settings.language},
            voices=tuple(BuiltinVoice(name, name.replace("_", " ").title(), tag) for name in names),
            clones=frozenset({"audio"}) if hears(folder) else frozenset(),
        )

    def load(self, source: Source, device: str) -> "PocketModel":
        check_device(NAME, device)
        settings = read_settings(PocketSettings, source, NAME)
        folder = checkpoint_folder(NAME, source)
        config = read_config(NAME, folder, ["pocket_tts", "gradium_phonon_tts"])
        if not any(
            (folder / name).is_file() for name in (*_TOKENIZERS, config.get("tokenizer_name") or "tokenizer")
        ):
            # The library would fetch one from the hub.
            raise EngineUnavailable(
                f"{NAME}'s checkpoint {folder} has no tokenizer ({' or '.join(_TOKENIZERS)})"
            )
        from engines.mlx_pocket_model import PocketModel

        return PocketModel(folder, settings, voice_files(folder, settings), device, clones=hears(folder))


engine = PocketEngine()


def voice_files(folder: Path, settings: PocketSettings) -> dict[str, Path]:
    """The operator's first. Raises OptionError."""
    found = {voice.name: voice.audio for voice in settings.recordings}
    for place in (folder / "voices", folder / "embeddings"):
        for file in sorted(place.glob("*.safetensors")):
            found.setdefault(file.stem.lower(), file)
    default = folder / "default-voice.safetensors"
    if default.is_file():
        found.setdefault("default", default)
    return found


def hears(folder: Path) -> bool:
    """Some checkpoints come without the part that listens to recordings. Raises EngineUnavailable."""
    try:
        names = [name for file in sorted(folder.glob("*.safetensors")) for name in tensor_names(file)]
    except (OSError, ValueError) as error:
        raise EngineUnavailable(f"{NAME}'s weights in {folder} can't be read: {error}") from error
    return any(name.startswith("mimi.encoder.") for name in names)


def _digest(folder: Path, settings: PocketSettings, library: str) -> str:
    shaping = [library, settings.frames_per_token, settings.spare_frames]
    return sound_digest(folder, suffixes=SUFFIXES, shaping=shaping, voices=settings.recordings)
