"""What an operator can set for VoxCPM and a client ask of it, with its ranges."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Self, get_args

from engines.contract import OptionError, Source
from engines.torch_device import Precision, check_precision, check_threads

DESIGN = "design"
"""The voice without a recording: as `instruct` describes it, or as the seed happens to give it."""
WithText = Literal["ultimate", "continuation"]
_MOST_INSTRUCT_CHARS = 200


@dataclass(frozen=True, slots=True)
class RecordedVoice:
    audio: Path
    text: str | None
    """What is said in it, word for word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoxcpmOptions:
    """Of one request."""

    cfg_value: float = 2.0
    """How closely the prompt is followed."""
    inference_timesteps: int = 10
    """Of the diffusion of each step: more take longer and sound cleaner."""
    min_len: int = 2
    """Steps of 160 ms before an end is believed."""
    max_len: int = 4096
    """Steps after which it ends in any case."""
    denoise: bool | None = None
    """Whether prompts were freed of noise; it is decided when the model is loaded, so this can only agree."""
    instruct: str = ""
    """How it should sound: `a calm young woman`, `whispering`. Not for a voice that goes on from a transcript."""

    def __post_init__(self) -> None:
        _check_number("cfg_value", self.cfg_value, 0.5, 10)
        _check_count("inference_timesteps", self.inference_timesteps, 1, 50)
        _check_count("min_len", self.min_len, 0, 100)
        _check_count("max_len", self.max_len, 1, 4096)
        if self.max_len < self.min_len:
            raise OptionError("max_len", f"must not be less than min_len ({self.min_len})")
        if self.denoise is not None and not isinstance(self.denoise, bool):
            raise OptionError("denoise", "must be true or false")
        _check_instruct(self.instruct)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoxcpmSettings:
    dtype: Precision = "auto"
    """`auto`: half precision on CUDA, float32 elsewhere."""
    optimize: bool = False
    """Compile the network at the load; CUDA alone, and it takes a while."""
    threads: int = 1
    """Of the processor."""
    voices: Mapping[str, Any] = field(default_factory=dict)
    """Names for recordings: a path, or a table of `audio` and `text` (what is said in it)."""
    with_text: WithText = "ultimate"
    """What a recording with a transcript is used for: `ultimate` takes it as reference and goes on from it,
    `continuation` only goes on from it."""
    steps_per_token: float = 6.0
    """A text's audio can't be longer than so many steps of 160 ms for each of its tokens, and ten more."""
    denoiser: str | None = None
    """A ZipEnhancer model of ModelScope that frees recordings of noise; needs the package modelscope."""

    @classmethod
    def from_source(cls, source: Source) -> Self:
        known = [each.name for each in fields(cls)]
        for name in source.settings:
            if name not in known:
                raise OptionError(name, f"voxcpm has no such setting; it has {', '.join(known)}")
        return cls(**source.settings)

    def __post_init__(self) -> None:
        check_precision(self.dtype)
        check_threads(self.threads)
        if not isinstance(self.optimize, bool):
            raise OptionError("optimize", "must be true or false")
        if self.with_text not in get_args(WithText):
            raise OptionError("with_text", f"must be one of {', '.join(get_args(WithText))}")
        _check_number("steps_per_token", self.steps_per_token, 0.5, 20)
        if self.denoiser is not None and not isinstance(self.denoiser, str):
            raise OptionError("denoiser", "must be the path of a model")
        for name, voice in self.recordings.items():
            if not voice.audio.is_file():
                raise OptionError("voices", f"the voice {name!r} has no file {voice.audio}")

    @property
    def recordings(self) -> dict[str, RecordedVoice]:
        """Raises OptionError."""
        voices: Any = self.voices
        if not isinstance(voices, Mapping):
            raise OptionError("voices", "must be a table of names and files")
        return {name: _recorded(name, value) for name, value in voices.items()}


def _recorded(name: str, value: Any) -> RecordedVoice:
    if name == DESIGN:
        raise OptionError("voices", f"{DESIGN!r} is the name of the voice without a recording")
    table = value if isinstance(value, Mapping) else {"audio": value}
    audio, text = table.get("audio"), table.get("text")
    if not set(table) <= {"audio", "text"} or not isinstance(audio, str):
        raise OptionError("voices", f"the voice {name!r} must be a path, or a table of audio and text")
    if text is not None and not (isinstance(text, str) and text.strip()):
        raise OptionError("voices", f"the text of the voice {name!r} must say what is spoken in it")
    return RecordedVoice(Path(audio).expanduser(), text)


def _check_number(name: str, value: Any, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise OptionError(name, f"must be {low:g} to {high:g}")


def _check_count(name: str, value: Any, low: int, high: int) -> None:
    if type(value) is not int or not low <= value <= high:
        raise OptionError(name, f"must be {low} to {high}")


def _check_instruct(value: Any) -> None:
    if not isinstance(value, str) or len(value) > _MOST_INSTRUCT_CHARS or not value.isprintable():
        raise OptionError("instruct", f"must be a line of at most {_MOST_INSTRUCT_CHARS} characters")
    if any(bracket in value for bracket in "()（）"):
        raise OptionError("instruct", "must have no round brackets: they end an instruction")
