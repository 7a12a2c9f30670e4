"""What an operator can set for VoxCPM and a client ask of it, with its ranges."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from engines.contract import OptionError, Source
from engines.option_checks import check_count, check_flag, check_line, check_number, read_settings
from engines.recordings import RecordedVoice, recorded_voices
from engines.torch_device import Precision, check_precision, check_threads

DESIGN = "design"
"""The voice without a recording: as `instruct` describes it, or as the seed happens to give it."""
WithText = Literal["ultimate", "continuation"]
_MOST_INSTRUCT_CHARS = 200


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
        check_number("cfg_value", self.cfg_value, 0.5, 10)
        check_count("inference_timesteps", self.inference_timesteps, 1, 50)
        check_count("min_len", self.min_len, 0, 100)
        check_count("max_len", self.max_len, 1, 4096)
        if self.max_len < self.min_len:
            raise OptionError("max_len", f"must not be less than min_len ({self.min_len})")
        if self.denoise is not None:
            check_flag("denoise", self.denoise)
        check_instruct(self.instruct)


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
    def from_source(cls, source: Source) -> "VoxcpmSettings":
        return read_settings(cls, source, "voxcpm")

    def __post_init__(self) -> None:
        check_precision(self.dtype)
        check_threads(self.threads)
        check_flag("optimize", self.optimize)
        if self.with_text not in get_args(WithText):
            raise OptionError("with_text", f"must be one of {', '.join(get_args(WithText))}")
        check_number("steps_per_token", self.steps_per_token, 0.5, 20)
        if self.denoiser is not None and not isinstance(self.denoiser, str):
            raise OptionError("denoiser", "must be the path of a model")
        recorded_voices(self.voices, taken=[DESIGN])

    @property
    def recordings(self) -> tuple[RecordedVoice, ...]:
        return recorded_voices(self.voices)


def check_instruct(value: Any) -> None:
    check_line("instruct", value, _MOST_INSTRUCT_CHARS)
    if any(bracket in value for bracket in "()（）"):
        raise OptionError("instruct", "must have no round brackets: they end an instruction")
