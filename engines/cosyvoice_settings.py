"""What an operator can set for CosyVoice and a client ask of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from engines.contract import OptionError, Source
from engines.option_checks import check_count, check_flag, check_line, read_settings
from engines.recordings import RecordedVoice, recorded_voices

Generation = Literal[1, 2, 3]
_MOST_INSTRUCT_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class CosyvoiceOptions:
    """Of one request."""

    instruct: str = ""
    """How it should be said, in words: `whispering`, `in the dialect of Sichuan`."""

    def __post_init__(self) -> None:
        check_line("instruct", self.instruct, _MOST_INSTRUCT_CHARS)
        if "<|" in self.instruct:
            raise OptionError("instruct", "must hold no marks of the network (<|)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CosyvoiceSettings:
    checkout: str
    """The folder of the official repository, with its submodules."""
    voices: Mapping[str, Any] = field(default_factory=dict)
    """Names for recordings: a path, or a table of `audio` and `text` (what is said in it)."""
    speakers: Sequence[str] = ()
    """Those that the checkpoint has names for (CosyVoice-300M-SFT)."""
    sentences_per_chunk: int = 0
    """So many are made in one go; 0: a segment, however many it has."""
    silence_ms: int = 0
    """After each of them."""
    text_frontend: bool = True
    """Whether the library writes numbers out."""
    fp16: bool = False
    jit: bool = False
    trt: bool = False
    """Ways of the library to be faster on CUDA; `jit` isn't for the third generation."""

    @classmethod
    def from_source(cls, source: Source) -> "CosyvoiceSettings":
        if "checkout" not in source.settings:
            raise OptionError("checkout", "must name the folder of the official repository")
        return read_settings(cls, source, "cosyvoice")

    def __post_init__(self) -> None:
        checkout: Any = self.checkout
        if (
            not isinstance(checkout, str)
            or not (self.folder / "cosyvoice" / "cli" / "cosyvoice.py").is_file()
        ):
            raise OptionError("checkout", f"{checkout} is no checkout of CosyVoice")
        speakers: Any = self.speakers
        if (
            isinstance(speakers, str)
            or not isinstance(speakers, Sequence)
            or not all(isinstance(name, str) and name for name in speakers)
        ):
            raise OptionError("speakers", "must be a list of names")
        check_count("sentences_per_chunk", self.sentences_per_chunk, 0, 100)
        check_count("silence_ms", self.silence_ms, 0, 5000)
        for name in ("text_frontend", "fp16", "jit", "trt"):
            check_flag(name, getattr(self, name))
        recorded_voices(self.voices, taken=self.speakers)

    @property
    def folder(self) -> Path:
        return Path(self.checkout).expanduser()

    @property
    def recordings(self) -> "tuple[RecordedVoice, ...]":
        return recorded_voices(self.voices)
