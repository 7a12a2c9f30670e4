"""VoxCPM 2: thirty languages, clones voices and follows descriptions, one segment at a time in steps of 160 ms."""

import json
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engines.contract import BuiltinVoice, EngineUnavailable, Facts, Info, Source
from engines.digest import sound_digest
from engines.installed import installed_version
from engines.voxcpm_settings import DESIGN, VoxcpmOptions, VoxcpmSettings

if TYPE_CHECKING:
    from engines.voxcpm_model import VoxcpmModel

LANGUAGES = {
    "en": "English",
    "zh": "Chinese",
    "ar": "Arabic",
    "my": "Burmese",
    "da": "Danish",
    "nl": "Dutch",
    "fi": "Finnish",
    "fr": "French",
    "de": "German",
    "el": "Greek",
    "he": "Hebrew",
    "hi": "Hindi",
    "id": "Indonesian",
    "it": "Italian",
    "ja": "Japanese",
    "km": "Khmer",
    "ko": "Korean",
    "lo": "Lao",
    "ms": "Malay",
    "no": "Norwegian",
    "pl": "Polish",
    "pt": "Portuguese",
    "ru": "Russian",
    "es": "Spanish",
    "sw": "Swahili",
    "sv": "Swedish",
    "tl": "Tagalog",
    "th": "Thai",
    "tr": "Turkish",
    "vi": "Vietnamese",
}
"""The network hears from the text alone which one it is."""
MAX_CHARS, MAX_SENTENCES = 80, 3
"""Long unbroken generation gets worse; a client may ask for more."""
_FOOTPRINT_BYTES = 5_000_000_000
"""In half precision, twice as much in float32."""
_ENCODER_RATES = (2, 5, 8, 8)
SUFFIXES = (".json", ".safetensors", ".pth", ".bin")


class VoxcpmEngine:
    """`Source.path`: the folder of a checkpoint of VoxCPM 2; the rest is in VoxcpmSettings."""

    @property
    def info(self) -> Info:
        return Info(
            name="voxcpm",
            version=installed_version("voxcpm"),
            extra="voxcpm",
            devices=frozenset({"cuda", "mps"}),
            languages=LANGUAGES,
            voices=(),
            clones=frozenset({"audio", "audio+text"}),
            options=VoxcpmOptions,
        )

    def identify(self, source: Source) -> Facts:
        settings = VoxcpmSettings.from_source(source)
        folder = checkpoint_folder(source)
        config = read_config(folder)
        return Facts(
            checkpoint=_digest(folder, settings, self.info.version),
            sample_rate_hz=output_rate_hz(config),
            max_open=1,
            step_s=step_s(config),
            max_chars=MAX_CHARS,
            max_sentences=MAX_SENTENCES,
            sampling=True,
            footprint_bytes={"": _FOOTPRINT_BYTES * (2 if settings.dtype == "float32" else 1)},
            voices=tuple(BuiltinVoice(name, _label(name), "en") for name in (*settings.voices, DESIGN)),
        )

    def load(self, source: Source, device: str) -> "VoxcpmModel":
        if device not in {"cpu", "cuda", "mps"}:
            raise EngineUnavailable(f"voxcpm runs on CUDA, on an Apple GPU or on the CPU, not on {device!r}")
        settings = VoxcpmSettings.from_source(source)
        folder = checkpoint_folder(source)
        read_config(folder)
        from engines.voxcpm_model import VoxcpmModel

        return VoxcpmModel(folder, settings, device)


engine = VoxcpmEngine()


def checkpoint_folder(source: Source, name: str = "voxcpm") -> Path:
    """Raises EngineUnavailable."""
    if source.path is None:
        raise EngineUnavailable(f'{name} needs a checkpoint: engines.{name}.path = "/srv/VoxCPM2"')
    folder = Path(source.path).expanduser()
    if not (folder / "config.json").is_file():
        raise EngineUnavailable(f"{name}'s checkpoint {folder} has no config.json")
    return folder


def read_config(folder: Path) -> dict[str, Any]:
    """Raises EngineUnavailable for what isn't VoxCPM 2: the older ones clone in another way."""
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise EngineUnavailable(f"{folder / 'config.json'} can't be read: {error}") from error
    kind = config.get("architecture") if isinstance(config, dict) else None
    if kind != "voxcpm2":
        raise EngineUnavailable(f"{folder} is a checkpoint of {kind or 'something else'}, not of voxcpm2")
    return dict(config)


def output_rate_hz(config: dict[str, Any]) -> int:
    return int(_decoder(config).get("out_sample_rate", 48000))


def step_s(config: dict[str, Any]) -> float:
    """What the recordings' end of the decoder makes of one step."""
    decoder = _decoder(config)
    samples = config.get("patch_size", 4) * prod(decoder.get("encoder_rates", _ENCODER_RATES))
    return float(samples / decoder.get("sample_rate", 16000))


def _decoder(config: dict[str, Any]) -> dict[str, Any]:
    return config.get("audio_vae_config") or {}


def _label(name: str) -> str:
    return "By description" if name == DESIGN else name.replace("_", " ").title()


def _digest(folder: Path, settings: VoxcpmSettings, library: str) -> str:
    shaping = [library, settings.dtype, settings.with_text, settings.steps_per_token, settings.denoiser]
    return sound_digest(folder, suffixes=SUFFIXES, shaping=shaping, voices=settings.recordings)
