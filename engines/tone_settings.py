"""What an operator and a client can ask of the synthetic engine."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from engines.contract import OptionError, Source
from engines.option_checks import check_flag, read_settings

Fault = Literal[
    "nan",
    "beyond",
    "nothing",
    "collapse",
    "raise",
    "raise_at_start",
    "stall",
    "runaway",
    "silence_inside",
    "silent_tail",
]
FAULTS: tuple[Fault, ...] = get_args(Fault)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToneOptions:
    """Of one request. Faults need the operator's setting `faults`."""

    fault: Fault | None = None
    at_step: int = 0
    """The step at which it happens, from 0."""
    only_seed: int | None = None
    """The fault is in the take with this seed alone; None: in every take."""
    stall_s: float = 10.0

    def __post_init__(self) -> None:
        if self.fault is not None and self.fault not in FAULTS:
            raise OptionError("fault", f"must be one of {', '.join(FAULTS)}")
        if type(self.at_step) is not int or self.at_step < 0:
            raise OptionError("at_step", "must be a whole number from 0")
        if self.only_seed is not None and type(self.only_seed) is not int:
            raise OptionError("only_seed", "must be a whole number")
        if type(self.stall_s) not in {int, float} or not 0 <= self.stall_s <= 600:
            raise OptionError("stall_s", "must be 0 to 600")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToneSettings:
    """Of the whole engine; a wrong one raises OptionError."""

    cost: float = 0.0
    """Compute seconds per second of audio, spent asleep; the streams of a batch share it."""
    first_step_s: float = 0.0
    """Additional compute seconds of a stream's first step."""
    step_ms: float | None = None
    """Audio of a step; None: a step makes the whole segment."""
    max_batch: int = 1
    max_open: int = 1 << 30
    grows: bool = False
    sampling: bool = False
    sample_rate_hz: int = 24000
    load_s: float = 0.0
    faults: bool = False
    """Clients may ask for faults."""
    fails_to_load: bool = False
    fails_to_unload: bool = False

    @classmethod
    def from_source(cls, source: Source) -> "ToneSettings":
        return read_settings(cls, source, "tone")

    def __post_init__(self) -> None:
        for name, low, high in _BOUNDS:
            value: Any = getattr(self, name)
            if name == "step_ms" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise OptionError(name, f"must be {low} to {high}")
        for name in ("max_batch", "max_open", "sample_rate_hz"):
            if not isinstance(getattr(self, name), int):
                raise OptionError(name, "must be a whole number")
        for name in ("grows", "sampling", "faults", "fails_to_load", "fails_to_unload"):
            check_flag(name, getattr(self, name))


_BOUNDS = (
    ("cost", 0, 100),
    ("first_step_s", 0, 60),
    ("step_ms", 1, 60_000),
    ("max_batch", 1, 1024),
    ("max_open", 1, 1 << 30),
    ("sample_rate_hz", 8000, 48000),
    ("load_s", 0, 600),
)
