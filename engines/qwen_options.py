"""What a request can ask of Qwen3-TTS, and what an operator can."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from engines.contract import OptionError, Source
from engines.option_checks import check_count, read_settings
from engines.torch_device import Precision, check_precision, check_threads

_MOST_INSTRUCT_CHARS = 2000
_COMMIT_CHARS = 40
_NUMBERS = {
    "temperature": (0.0, 2.0),
    "top_p": (0.01, 1.0),
    "repetition_penalty": (1.0, 2.0),
    "subtalker_temperature": (0.0, 2.0),
    "subtalker_top_p": (0.01, 1.0),
}
_COUNTS = {"top_k": (0, 2048), "subtalker_top_k": (0, 2048), "max_new_tokens": (2, 8192)}
_SWITCHES = ("do_sample", "subtalker_dosample", "non_streaming_mode")


@dataclass(frozen=True, slots=True, kw_only=True)
class QwenOptions:
    """Of one request; None: as the checkpoint says. The names are the library's."""

    do_sample: bool | None = None
    temperature: float | None = None
    """0: the likeliest each time, as without do_sample."""
    top_k: int | None = None
    """0: no limit"""
    top_p: float | None = None
    repetition_penalty: float | None = None
    subtalker_dosample: bool | None = None
    subtalker_temperature: float | None = None
    subtalker_top_k: int | None = None
    subtalker_top_p: float | None = None
    max_new_tokens: int | None = None
    """Frames of 80 ms at the most; None: a little more than the text can need."""
    non_streaming_mode: bool | None = None
    """The whole text is read before the first frame, instead of along with them."""
    instruct: str | None = None
    """How to speak; of VoiceDesign, who speaks."""

    def __post_init__(self) -> None:
        for name, (low, high) in _NUMBERS.items():
            _check_number(name, getattr(self, name), low, high)
        for name, (least, most) in _COUNTS.items():
            value = getattr(self, name)
            if value is not None and (type(value) is not int or not least <= value <= most):
                raise OptionError(name, f"must be a whole number, {least} to {most}")
        for name in _SWITCHES:
            if not isinstance(getattr(self, name), bool | None):
                raise OptionError(name, "must be true or false")
        instruct: Any = self.instruct
        if instruct is not None and not (isinstance(instruct, str) and len(instruct) <= _MOST_INSTRUCT_CHARS):
            raise OptionError("instruct", f"must be a text of at most {_MOST_INSTRUCT_CHARS} characters")


def _check_number(name: str, value: Any, low: float, high: float) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise OptionError(name, f"must be {low:g} to {high:g}")


@dataclass(frozen=True, slots=True)
class OwnVoice:
    """One that the operator names: of a Base checkpoint a recording, of VoiceDesign a description."""

    audio: Path | None = None
    text: str | None = None
    """What is said in the recording; or the description."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QwenSettings:
    voices: Mapping[str, Any] = field(default_factory=dict)
    hub: str | None = None
    """A repository to fetch the checkpoint from where there is no path, and the commit of it."""
    revision: str | None = None
    dtype: Precision = "auto"
    threads: int | None = None
    """Of the processor; None: as many as PyTorch takes."""
    frames_per_step: int = 1
    """Of 80 ms; a stream's first step makes one."""
    max_open: int = 8
    """Streams at once: each takes memory on the device."""
    max_batch: int = 8

    @classmethod
    def from_source(cls, source: Source) -> Self:
        settings = read_settings(cls, source, "qwen")
        if source.path is None and settings.hub is None:
            raise OptionError("path", "qwen needs the folder of a checkpoint, or `hub` and `revision`")
        return settings

    def __post_init__(self) -> None:
        check_precision(self.dtype)
        if self.threads is not None:
            check_threads(self.threads)
        for name, most in (("frames_per_step", 16), ("max_open", 64), ("max_batch", 64)):
            check_count(name, getattr(self, name), 1, most)
        self._check_hub()
        voices: Any = self.voices
        if not isinstance(voices, Mapping):
            raise OptionError("voices", "must be a table")
        for name, value in self.voices.items():
            _check_voice(name, value)

    def _check_hub(self) -> None:
        for name in ("hub", "revision"):
            if not isinstance(getattr(self, name), str | None):
                raise OptionError(name, "must be a text")
        if self.hub is None:
            return
        pinned = self.revision is not None and len(self.revision) == _COMMIT_CHARS and self.revision.isalnum()
        if not pinned:
            raise OptionError("revision", "must be the commit of the repository to take, 40 characters")

    def recordings(self) -> dict[str, OwnVoice]:
        """`voices` of a Base checkpoint. Raises OptionError."""
        found: dict[str, OwnVoice] = {}
        for name, value in self.voices.items():
            audio, text = (value, None) if isinstance(value, str) else (value["audio"], value.get("text"))
            file = Path(audio).expanduser()
            if not file.is_file():
                raise OptionError("voices", f"the voice {name!r} has no file {file}")
            found[name] = OwnVoice(file, text)
        return found

    def descriptions(self) -> dict[str, OwnVoice]:
        """`voices` of VoiceDesign. Raises OptionError."""
        for name, value in self.voices.items():
            if not isinstance(value, str) or not value.strip():
                raise OptionError("voices", f"the voice {name!r} needs a description")
        return {name: OwnVoice(text=value) for name, value in self.voices.items()}


def _check_voice(name: Any, value: Any) -> None:
    described = isinstance(value, str) or (
        isinstance(value, Mapping)
        and isinstance(value.get("audio"), str)
        and isinstance(value.get("text"), str | None)
        and set(value) <= {"audio", "text"}
    )
    if not isinstance(name, str) or not described:
        raise OptionError("voices", f"the voice {name!r} must be a text, or a table with `audio` and `text`")
