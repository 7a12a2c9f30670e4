"""What an operator can set for nano-vllm-voxcpm and a client ask of it, with its ranges."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from engines.contract import OptionError, Source
from engines.option_checks import check_count, check_flag, check_number, read_settings
from engines.recordings import RecordedVoice, recorded_voices
from engines.voxcpm_settings import DESIGN, WithText, check_instruct


@dataclass(frozen=True, slots=True, kw_only=True)
class NanoOptions:
    """Of one request; the number of diffusion steps is the whole model's, see NanoSettings."""

    cfg_value: float = 2.0
    """How closely the prompt is followed."""
    temperature: float = 1.0
    """More of it: livelier and less sure."""
    max_len: int = 2000
    """Steps of 160 ms after which it ends in any case."""
    instruct: str = ""
    """How it should sound: `a calm young woman`, `whispering`. Not for a voice that goes on from a transcript."""

    def __post_init__(self) -> None:
        check_number("cfg_value", self.cfg_value, 0.5, 10)
        check_number("temperature", self.temperature, 0, 2)
        check_count("max_len", self.max_len, 1, 4096)
        check_instruct(self.instruct)


@dataclass(frozen=True, slots=True, kw_only=True)
class NanoSettings:
    voices: Mapping[str, Any] = field(default_factory=dict)
    """Names for recordings: a path, or a table of `audio` and `text` (what is said in it)."""
    with_text: WithText = "ultimate"
    """As for voxcpm."""
    inference_timesteps: int = 10
    """Of the diffusion of each step: more take longer and sound cleaner."""
    max_open: int = 16
    """Listeners at once."""
    gpu_memory_utilization: float = 0.5
    """How much of the card's memory it takes, all of it at the load."""
    devices: Sequence[int] = (0,)
    """Cards: a process for each, listeners are spread over them."""
    enforce_eager: bool = False
    """Without CUDA graphs: a quicker load, slower steps."""

    @classmethod
    def from_source(cls, source: Source) -> "NanoSettings":
        return read_settings(cls, source, "nano-vllm-voxcpm")

    def __post_init__(self) -> None:
        if self.with_text not in get_args(WithText):
            raise OptionError("with_text", f"must be one of {', '.join(get_args(WithText))}")
        check_count("inference_timesteps", self.inference_timesteps, 1, 50)
        check_count("max_open", self.max_open, 1, 512)
        check_number("gpu_memory_utilization", self.gpu_memory_utilization, 0.05, 0.95)
        devices: Any = self.devices
        if isinstance(devices, str) or not isinstance(devices, Sequence) or not devices:
            raise OptionError("devices", "must be a list of numbers of cards")
        for number in devices:
            check_count("devices", number, 0, 63)
        check_flag("enforce_eager", self.enforce_eager)
        recorded_voices(self.voices, taken=[DESIGN])

    @property
    def recordings(self) -> "tuple[RecordedVoice, ...]":
        return recorded_voices(self.voices)
