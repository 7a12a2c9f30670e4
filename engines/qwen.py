"""Qwen3-TTS: clones voices, has speakers of its own or takes a description of one; steps of 80 ms, in batches."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engines import hub
from engines.contract import BuiltinVoice, CloneMode, EngineUnavailable, Facts, Info, OptionError, Source
from engines.digest import file_digest, folder_digest
from engines.hub_folder import fetch_folder
from engines.installed import installed_version
from engines.qwen_options import OwnVoice, QwenOptions, QwenSettings

if TYPE_CHECKING:
    from engines.qwen_inputs import Kind
    from engines.qwen_model import QwenModel

_SAMPLE_RATE_HZ = 24000
_FRAME_S = 0.08
_ANY = "und"
"""The model finds the language out by itself."""
_TAGS = {
    "english": "en",
    "chinese": "zh",
    "german": "de",
    "french": "fr",
    "spanish": "es",
    "italian": "it",
    "portuguese": "pt",
    "russian": "ru",
    "japanese": "ja",
    "korean": "ko",
}
_MOTHER_TONGUES = {
    "ryan": "en",
    "aiden": "en",
    "vivian": "zh",
    "serena": "zh",
    "uncle_fu": "zh",
    "dylan": "zh",
    "eric": "zh",
    "ono_anna": "ja",
    "sohee": "ko",
}
_SOMEBODY = {"design": OwnVoice(text="A clear, friendly voice at a calm pace.")}
_KINDS = ("base", "custom_voice", "voice_design")
_FILES = ("*.json", "*.txt", "*.safetensors")
_MOST_BYTES = 8_700_000_000
"""What the larger model was seen to take at the most; 6.5e9 was too low a guess."""
_WORK_BYTES = 4_200_000_000
"""Of that, what isn't weights."""


class QwenEngine:
    """`Source.path`: the folder of a checkpoint; the rest is in QwenSettings."""

    @property
    def info(self) -> Info:
        return Info(
            name="qwen",
            version=installed_version("qwen-tts-hf"),
            extra="qwen",
            devices=frozenset({"cuda", "mps"}),
            languages={},
            voices=(),
            clones=frozenset({"audio", "audio+text"}),
            options=QwenOptions,
        )

    def identify(self, source: Source) -> Facts:
        settings = QwenSettings.from_source(source)
        config = _config(source, settings)
        kind = _kind(config)
        languages = _languages(config)
        clones: frozenset[CloneMode] = self.info.clones if kind == "base" else frozenset()
        return Facts(
            checkpoint=_digest(source, settings, self.info.version),
            sample_rate_hz=_SAMPLE_RATE_HZ,
            max_open=settings.max_open,
            max_batch=min(settings.max_batch, settings.max_open),
            step_s=_FRAME_S * settings.frames_per_step,
            sampling=True,
            footprint_bytes=dict.fromkeys(("", *sorted(clones)), _footprint_bytes(source, settings)),
            languages=languages,
            voices=tuple(
                BuiltinVoice(name, name.replace("_", " ").title(), _tongue(kind, name, languages))
                for name in _voices(kind, config, settings)
            ),
            clones=clones,
        )

    def fetch(self, source: Source) -> None:
        settings = QwenSettings.from_source(source)
        if source.path is None:
            fetch_folder(str(settings.hub), str(settings.revision), _FILES, engine="qwen")

    def load(self, source: Source, device: str) -> "QwenModel":
        if device not in (*self.info.devices, "cpu"):
            raise EngineUnavailable(f"qwen runs on CUDA or MPS, or slowly on the CPU, not on {device!r}")
        settings = QwenSettings.from_source(source)
        folder = _folder(source, settings)
        config = _config(source, settings)
        from engines.qwen_model import Checkpoint, QwenModel

        kind = _kind(config)
        return QwenModel(
            Checkpoint(
                folder=folder,
                kind=kind,
                voices=_voices(kind, config, settings),
                languages=_languages(config),
                # The library leaves the smaller model's out without a word.
                instructs=kind == "voice_design"
                or (kind == "custom_voice" and config.get("tts_model_size") != "0b6"),
                dtype=settings.dtype,
                threads=settings.threads,
                frames_per_step=settings.frames_per_step,
                max_open=settings.max_open,
            ),
            device,
        )


engine = QwenEngine()


def _folder(source: Source, settings: QwenSettings) -> Path:
    """Where the checkpoint is. Raises EngineUnavailable."""
    if source.path is not None:
        return Path(source.path).expanduser()
    return hub.fetch(str(settings.hub), "config.json", str(settings.revision), engine="qwen").parent


def _config(source: Source, settings: QwenSettings) -> Mapping[str, Any]:
    file = _folder(source, settings) / "config.json"
    try:
        config: Any = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise EngineUnavailable(f"qwen's checkpoint isn't there: no {file}") from None
    except (OSError, ValueError) as error:
        raise EngineUnavailable(f"qwen's checkpoint can't be read: {file}: {error}") from error
    if not isinstance(config, dict) or config.get("model_type") != "qwen3_tts":
        raise EngineUnavailable(f"{file} isn't that of a Qwen3-TTS checkpoint")
    return config


def _kind(config: Mapping[str, Any]) -> "Kind":
    kind: Kind = config.get("tts_model_type", "base")
    if kind not in _KINDS:
        raise EngineUnavailable(f"qwen has no kind {kind!r} of checkpoint; it has {', '.join(_KINDS)}")
    return kind


def _talker(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = config.get("talker_config", {}).get(name)
    return table if isinstance(table, dict) else {}


def _languages(config: Mapping[str, Any]) -> dict[str, str]:
    """Dialects are their speakers'."""
    known = _talker(config, "codec_language_id")
    return {_ANY: "Auto"} | {tag: name for name, tag in _TAGS.items() if name in known}


def _voices(kind: "Kind", config: Mapping[str, Any], settings: QwenSettings) -> dict[str, OwnVoice]:
    match kind:
        case "base":
            voices = settings.recordings()
            if not voices:
                raise OptionError(
                    "voices", 'a Base checkpoint needs a voice: voices = { anna = "/path/anna.wav" }'
                )
            return voices
        case "voice_design":
            return settings.descriptions() or _SOMEBODY
        case "custom_voice":
            if settings.voices:
                raise OptionError("voices", "a CustomVoice checkpoint has its own")
            speakers = _talker(config, "spk_id")
            if not speakers:
                raise EngineUnavailable("this CustomVoice checkpoint of qwen names no speaker")
            english_first = sorted(speakers, key=lambda name: _MOTHER_TONGUES.get(name) != "en")
            return {name: OwnVoice() for name in english_first}


def _tongue(kind: "Kind", name: str, languages: Mapping[str, str]) -> str:
    tag = _MOTHER_TONGUES.get(name, _ANY) if kind == "custom_voice" else _ANY
    return tag if tag in languages else _ANY


def _digest(source: Source, settings: QwenSettings, library: str) -> str:
    digest = hashlib.sha256(f"{library} {settings.dtype}\n".encode())
    if source.path is None:
        digest.update(f"{settings.hub} {settings.revision}\n".encode())
    else:
        folder = Path(source.path).expanduser()
        digest.update(folder_digest(folder, suffixes={Path(name).suffix for name in _FILES}).encode())
    for name, value in sorted(settings.voices.items()):
        digest.update(f"{name} {json.dumps(value, sort_keys=True, default=str)}\n".encode())
    for value in settings.voices.values():
        file = Path(value if isinstance(value, str) else value["audio"]).expanduser()
        if file.is_file():
            digest.update(file_digest(file).encode())
    return digest.hexdigest()[:32]


def _footprint_bytes(source: Source, settings: QwenSettings) -> int:
    if source.path is None:
        return _MOST_BYTES
    weights_bytes = sum(file.stat().st_size for file in Path(source.path).expanduser().rglob("*.safetensors"))
    return footprint_bytes(weights_bytes, doubled=settings.dtype == "float32")


def footprint_bytes(weights_bytes: int, *, doubled: bool) -> int:
    """A smaller model's work is smaller, too. `doubled`: the weights, kept in half precision, are used in whole."""
    work_bytes = min(_WORK_BYTES, 2 * weights_bytes)
    return weights_bytes * (2 if doubled else 1) + work_bytes
