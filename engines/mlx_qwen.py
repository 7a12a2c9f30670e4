"""Qwen3-TTS on MLX: ten languages, named, cloned or described voices, steps of 80 ms and more."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engines.contract import BuiltinVoice, CloneMode, EngineUnavailable, Facts, Info, OptionError, Source
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

if TYPE_CHECKING:
    from engines.mlx_qwen_model import QwenModel

NAME = "mlx-qwen"
FRAME_S = 0.08
DESIGN = "design"
_DESCRIPTION = "A clear, friendly voice that speaks at an even pace."
_MOST_INSTRUCT_CHARS = 2000
_ANY = "und"
"""The network finds the language out by itself."""
LANGUAGES = {
    _ANY: "auto",
    "en": "english",
    "zh": "chinese",
    "ja": "japanese",
    "ko": "korean",
    "de": "german",
    "fr": "french",
    "ru": "russian",
    "pt": "portuguese",
    "es": "spanish",
    "it": "italian",
}
_MOTHER_TONGUES = {
    "aiden": "en",
    "ryan": "en",
    "ono_anna": "ja",
    "sohee": "ko",
    "vivian": "zh",
    "serena": "zh",
    "uncle_fu": "zh",
    "dylan": "zh",
    "eric": "zh",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QwenOptions:
    """Of one request; None: the checkpoint's own. `subtalker_*` is for all but the first code of a frame; None: as
    for the first.
    """

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float | None = None
    subtalker_temperature: float | None = None
    subtalker_top_k: int | None = None
    subtalker_top_p: float | None = None
    max_new_tokens: int | None = None
    """Frames of 80 ms after which it ends in any case; never more than the length of the text allows."""
    instruct: str = ""
    """How it should sound; not for clones, nor for the small checkpoint with named voices."""

    def __post_init__(self) -> None:
        for prefix in ("", "subtalker_"):
            _check(f"{prefix}temperature", getattr(self, f"{prefix}temperature"), 0, 2)
            _check(f"{prefix}top_p", getattr(self, f"{prefix}top_p"), 0.01, 1)
            if (top_k := getattr(self, f"{prefix}top_k")) is not None:
                check_count(f"{prefix}top_k", top_k, 0, 2048)
        _check("repetition_penalty", self.repetition_penalty, 1, 2)
        if self.max_new_tokens is not None:
            check_count("max_new_tokens", self.max_new_tokens, 1, 4096)
        check_line("instruct", self.instruct, _MOST_INSTRUCT_CHARS)


def _check(name: str, value: Any, low: float, high: float) -> None:
    if value is not None:
        check_number(name, value, low, high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What its configuration says."""

    kind: str
    """base: clones; custom_voice: named speakers; voice_design: described voices"""
    sample_rate_hz: int
    speakers: tuple[str, ...]
    languages: Mapping[str, str]
    hears_text: bool
    """It has the codec's encoder, so that a clone can go on from a recording with its transcript."""
    takes_instruct: bool

    @classmethod
    def read(cls, folder: Path) -> "Checkpoint":
        """Raises EngineUnavailable."""
        config = read_config(NAME, folder, ["qwen3_tts"])
        talker = config.get("talker_config") or {}
        words = talker.get("codec_language_id") or {}
        kind = config.get("tts_model_type", "base")
        languages = {tag: word for tag, word in LANGUAGES.items() if tag == _ANY or word in words}
        speakers = sorted(talker.get("spk_id") or (), key=lambda name: _MOTHER_TONGUES.get(name) != "en")
        return cls(
            kind=kind,
            sample_rate_hz=config.get("sample_rate", 24000),
            speakers=tuple(speakers) if kind == "custom_voice" else (),
            languages=languages,
            hears_text=kind == "base" and "encoder_config" in _codec_config(folder),
            takes_instruct=kind == "voice_design"
            or (kind == "custom_voice" and config.get("tts_model_size") != "0b6"),
        )

    @property
    def clones(self) -> frozenset[CloneMode]:
        if self.kind != "base":
            return frozenset()
        return frozenset({"audio", "audio+text"}) if self.hears_text else frozenset({"audio"})


def _codec_config(folder: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((folder / "speech_tokenizer" / "config.json").read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise EngineUnavailable(f"{NAME}'s checkpoint {folder} has no speech_tokenizer: {error}") from error


class QwenEngine:
    """`Source.path`: the folder of a checkpoint; the rest is in MlxSettings. `voices` are recordings for a base
    checkpoint, descriptions for one that designs voices.
    """

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
            options=QwenOptions,
        )

    def identify(self, source: Source) -> Facts:
        settings = read_settings(MlxSettings, source, NAME)
        folder = checkpoint_folder(NAME, source)
        checkpoint = Checkpoint.read(folder)
        return Facts(
            checkpoint=_digest(folder, checkpoint, settings, self.info.version),
            sample_rate_hz=checkpoint.sample_rate_hz,
            step_s=FRAME_S * settings.frames_per_step,
            max_chars=300,
            sampling=True,
            footprint_bytes=footprint_bytes(folder, settings),
            languages=checkpoint.languages,
            voices=tuple(_voices(checkpoint, settings)),
            clones=checkpoint.clones,
        )

    def load(self, source: Source, device: str) -> "QwenModel":
        check_device(NAME, device)
        settings = read_settings(MlxSettings, source, NAME)
        folder = checkpoint_folder(NAME, source)
        checkpoint = Checkpoint.read(folder)
        from engines.mlx_qwen_model import QwenModel

        return QwenModel(folder, checkpoint, settings, descriptions(checkpoint, settings), device)


engine = QwenEngine()


def descriptions(checkpoint: Checkpoint, settings: MlxSettings) -> dict[str, str]:
    """Voices that are described, by name. Raises OptionError."""
    if checkpoint.kind != "voice_design":
        return {}
    for name, text in settings.voices.items():
        check_line("voices", text, _MOST_INSTRUCT_CHARS)
        if not text.strip():
            raise OptionError("voices", f"the voice {name!r} has no description")
    return dict(settings.voices) or {DESIGN: _DESCRIPTION}


def _voices(checkpoint: Checkpoint, settings: MlxSettings) -> list[BuiltinVoice]:
    match checkpoint.kind:
        case "voice_design":
            names = list(descriptions(checkpoint, settings))
        case "custom_voice":
            if settings.voices:
                raise OptionError("voices", "a checkpoint with named voices takes no others")
            names = list(checkpoint.speakers)
        case _:
            names = [voice.name for voice in settings.recordings]
            if not names:
                raise OptionError(
                    "voices", 'a base checkpoint needs a voice: voices = { anna = "/path/anna.wav" }'
                )
    if not names:
        raise EngineUnavailable(f"{NAME}: the checkpoint names no speakers")
    return [BuiltinVoice(name, name.replace("_", " ").title(), _tongue(checkpoint, name)) for name in names]


def _tongue(checkpoint: Checkpoint, name: str) -> str:
    tag = _MOTHER_TONGUES.get(name, _ANY) if checkpoint.kind == "custom_voice" else _ANY
    return tag if tag in checkpoint.languages else _ANY


def _digest(folder: Path, checkpoint: Checkpoint, settings: MlxSettings, library: str) -> str:
    shaping = [library, settings.frames_per_token, settings.spare_frames, descriptions(checkpoint, settings)]
    voices = settings.recordings if checkpoint.kind == "base" else ()
    return sound_digest(folder, suffixes=SUFFIXES, shaping=shaping, voices=voices)
