"""VoxCPM on MLX: clones voices and follows descriptions, in steps of 160 ms and more."""

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from engines.contract import BuiltinVoice, CloneMode, Facts, Info, OptionError, Source
from engines.digest import sound_digest
from engines.mlx_runtime import DEVICES, installed_versions, unsupported
from engines.mlx_settings import (
    SUFFIXES,
    MlxSettings,
    check_device,
    checkpoint_folder,
    footprint_bytes,
    read_config,
)
from engines.option_checks import check_count, check_line, check_number, read_settings
from engines.recordings import recorded_voices
from engines.voxcpm import LANGUAGES, MAX_CHARS, MAX_SENTENCES

if TYPE_CHECKING:
    from engines.mlx_voxcpm_model import VoxcpmModel

NAME = "mlx-voxcpm"
DESIGN = "design"
"""The voice without a recording: as `instruct` describes it, or as the seed happens to give it."""
WithText = Literal["ultimate", "continuation"]
_MOST_INSTRUCT_CHARS = 200
_FIRST_LANGUAGES = ("zh", "en")


@dataclass(frozen=True, slots=True, kw_only=True)
class VoxcpmOptions:
    """Of one request."""

    cfg_value: float = 2.0
    """How closely the prompt is followed."""
    inference_timesteps: int = 10
    """Of the diffusion of each step: more take longer and sound cleaner."""
    min_len: int | None = None
    """Steps before an end is believed; None: 2, of the first VoxCPM 5."""
    max_len: int = 4096
    """Steps after which it ends in any case; never more than the length of the text allows."""
    instruct: str = ""
    """How it should sound; VoxCPM 2 alone, and not for a voice that goes on from a transcript."""

    def __post_init__(self) -> None:
        check_number("cfg_value", self.cfg_value, 0.5, 10)
        check_count("inference_timesteps", self.inference_timesteps, 1, 50)
        if self.min_len is not None:
            check_count("min_len", self.min_len, 0, 100)
        check_count("max_len", self.max_len, 1, 4096)
        check_line("instruct", self.instruct, _MOST_INSTRUCT_CHARS)
        if any(bracket in self.instruct for bracket in "()（）"):
            raise OptionError("instruct", "must have no round brackets: they end an instruction")


@dataclass(frozen=True, slots=True, kw_only=True)
class VoxcpmSettings(MlxSettings):
    frames_per_step: int = 2
    with_text: WithText = "ultimate"
    """What a recording with a transcript is used for: `ultimate` takes it as reference and goes on from it,
    `continuation` only goes on from it, as the first VoxCPM always does."""

    def __post_init__(self) -> None:
        super(VoxcpmSettings, self).__post_init__()
        if self.with_text not in get_args(WithText):
            raise OptionError("with_text", f"must be one of {', '.join(get_args(WithText))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What its configuration says."""

    second: bool
    """VoxCPM 2; else 0.5B or 1.5."""
    sample_rate_hz: int
    step_s: float

    @classmethod
    def read(cls, folder: Path) -> "Checkpoint":
        """Raises EngineUnavailable."""
        config = read_config(NAME, folder, ["voxcpm2", "voxcpm", "voxcpm1.5"])
        second = (config.get("model_type") or config.get("architecture")) == "voxcpm2"
        vae: dict[str, Any] = config.get("audio_vae_config") or {}
        rate_hz = vae.get("sample_rate", 16000 if second else 44100)
        rates = vae.get("encoder_rates", (2, 5, 8, 8) if second else (2, 3, 6, 7, 7))
        return cls(
            second=second,
            sample_rate_hz=vae.get("out_sample_rate", 48000) if second else rate_hz,
            step_s=config.get("patch_size", 4) * prod(rates) / rate_hz,
        )

    @property
    def clones(self) -> frozenset[CloneMode]:
        return frozenset({"audio", "audio+text"}) if self.second else frozenset({"audio+text"})


class VoxcpmEngine:
    """`Source.path`: the folder of a checkpoint; the rest is in VoxcpmSettings."""

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
            languages=LANGUAGES,
            voices=(),
            clones=frozenset({"audio", "audio+text"}),
            options=VoxcpmOptions,
        )

    def identify(self, source: Source) -> Facts:
        settings = read_settings(VoxcpmSettings, source, NAME)
        folder = checkpoint_folder(NAME, source)
        checkpoint = Checkpoint.read(folder)
        return Facts(
            checkpoint=_digest(folder, settings, self.info.version),
            sample_rate_hz=checkpoint.sample_rate_hz,
            step_s=checkpoint.step_s * settings.frames_per_step,
            max_chars=MAX_CHARS,
            max_sentences=MAX_SENTENCES,
            sampling=True,
            footprint_bytes=footprint_bytes(folder, settings),
            languages=LANGUAGES if checkpoint.second else {tag: LANGUAGES[tag] for tag in _FIRST_LANGUAGES},
            voices=tuple(
                BuiltinVoice(name, _label(name), "en")
                for name in (*_recordings(checkpoint, settings), DESIGN)
            ),
            clones=checkpoint.clones,
        )

    def load(self, source: Source, device: str) -> "VoxcpmModel":
        check_device(NAME, device)
        settings = read_settings(VoxcpmSettings, source, NAME)
        folder = checkpoint_folder(NAME, source)
        checkpoint = Checkpoint.read(folder)
        _recordings(checkpoint, settings)
        from engines.mlx_voxcpm_model import VoxcpmModel

        return VoxcpmModel(folder, checkpoint, settings, device)


engine = VoxcpmEngine()


def _recordings(checkpoint: Checkpoint, settings: VoxcpmSettings) -> list[str]:
    """Names of the operator's voices. Raises OptionError."""
    for voice in recorded_voices(settings.voices, taken=[DESIGN]):
        if voice.text is None and not checkpoint.second:
            raise OptionError("voices", f"the voice {voice.name!r} needs the text that is said in it")
    return list(settings.voices)


def _label(name: str) -> str:
    return "By description" if name == DESIGN else name.replace("_", " ").title()


def _digest(folder: Path, settings: VoxcpmSettings, library: str) -> str:
    shaping = [library, settings.with_text, settings.frames_per_token, settings.spare_frames]
    return sound_digest(folder, suffixes=SUFFIXES, shaping=shaping, voices=settings.recordings)
