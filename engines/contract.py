"""What an engine is: facts that can be read without loading it, and a model that turns segments into samples.

Needs only the standard library and numpy, so that the child side of a hosted engine can use it too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from voices.reference import CloneMode as CloneMode  # noqa: PLC0414 - part of the contract
from voices.reference import Reference

Samples = NDArray[np.float32]
"""float32 [n], mono, -1..1"""


class EngineError(Exception):
    """One stream failed; the model and its other streams go on."""


class EngineFault(EngineError):  # noqa: N818 - named by situation
    """The engine raised what it shouldn't have. Its words are for the log: they may tell of paths."""


class VoiceUnavailable(EngineError):  # noqa: N818 - named by situation
    """What one stream needs can't be had, or not yet: a voice that is still to be fetched."""


class ModelLost(EngineError):  # noqa: N818 - named by situation
    """The whole model is gone, with every stream and prompt; it can be loaded again."""


class ModelStalled(ModelLost):
    """It is gone because it didn't come back from a call in time."""


class EngineUnavailable(Exception):  # noqa: N818 - named by situation
    """A model couldn't be loaded; the message says why, in words for an operator."""


class OptionError(ValueError):
    """An option of a request, or a setting of a source, is unknown or out of range; `param` names it."""

    def __init__(self, param: str, message: str) -> None:
        super().__init__(message)
        self.param = param


@dataclass(frozen=True, slots=True)
class BuiltinVoice:
    voice_id: str
    name: str
    language: str
    """BCP-47"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """True of an engine whatever is loaded; readable without importing its library."""

    name: str
    version: str
    """The version of the engine's library, part of every cache key; "" while it isn't installed."""
    extra: str | None
    """The extra that installs it; None: part of a plain install."""
    devices: frozenset[str]
    """"cpu", "cuda", "mps" """
    languages: Mapping[str, str]
    """BCP-47 tag: the engine's own word for it. The first is the default. Empty: see Facts."""
    scripts: frozenset[str] | None = None
    """Unicode script names whose letters can be spoken; None: any."""
    voices: tuple[BuiltinVoice, ...]
    """The first is the default. Empty: the checkpoint decides, see Facts."""
    blends: bool = False
    """A voice can be a mix of these: `a+b`."""
    clones: frozenset[CloneMode] = frozenset()
    options: type | None = None
    """A frozen dataclass; its construction raises OptionError. None: the engine has no options."""
    synthetic: bool = False
    """Its sounds are for tests; it takes an uploaded voice only when it is asked for by name."""
    hosted: bool = False
    """Its library's packages don't go with ours: it runs in a process of its own alone."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where an engine's weights are and the operator's settings for it."""

    path: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """True of one checkpoint, known without loading it."""

    checkpoint: str
    """Digest of what shapes the sound."""
    sample_rate_hz: int
    max_open: int = 1 << 30
    """Streams that can be open at once in one model; 1: can't interleave."""
    max_batch: int = 1
    """Streams that one step can advance."""
    step_s: float | None = None
    """Audio of a typical step; None: a step makes a whole segment."""
    speed: tuple[float, float] = (1.0, 1.0)
    max_chars: int = 400
    """Longest text of one request."""
    max_sentences: int = 0
    """0: no limit"""
    grows: bool = False
    """A stream takes more text while it speaks."""
    sampling: bool = False
    """Another seed gives another delivery, so a take that went wrong is worth a second one."""
    exact_words: bool = False
    footprint_bytes: Mapping[str, int] = field(default_factory=dict)
    """What a loaded model takes of its device's memory at the most, by the clone mode in use; "": none. Empty: not
    known."""
    languages: Mapping[str, str] | None = None
    """Where the checkpoint decides, not the engine, and so are the next two; None: what Info says."""
    voices: tuple[BuiltinVoice, ...] | None = None
    clones: frozenset[CloneMode] | None = None


def info_of(info: Info, facts: Facts) -> Info:
    """What is true of an engine with this checkpoint."""
    return replace(
        info,
        languages=info.languages if facts.languages is None else facts.languages,
        voices=info.voices if facts.voices is None else facts.voices,
        clones=info.clones if facts.clones is None else facts.clones,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One segment to speak."""

    text: str
    """Speakable: no markup."""
    language: str
    """A key of Info.languages."""
    voice: str
    speed: float = 1.0
    seed: int = 0
    options: Any = None
    """An instance of Info.options, or None."""
    last: bool = True
    """False: `extend` will bring more text (only where Facts.grows)."""


Word = tuple[int, int, int, int]
"""(start_char, end_char, start_sample, end_sample): offsets into Request.text, samples from the stream's
start."""


@dataclass(frozen=True, slots=True)
class Chunk:
    samples: Samples
    words: tuple[Word, ...] = ()
    """Words whose times became known with this chunk; only where Facts.exact_words."""
    last: bool = False
    wants_text: bool = False
    """Nothing more can be made before `extend`; only where the request had last=False."""


P = TypeVar("P")
S = TypeVar("S")


class Model(Protocol[P, S]):
    """A loaded checkpoint. Every method is called by the thread that loaded it."""

    def prepare(self, reference: Reference, mode: CloneMode) -> bytes:
        """Compute a prompt once per checkpoint, as safetensors or JSON; slow."""
        ...

    def restore(self, prompt: bytes) -> P: ...

    def start(self, request: Request, prompt: P | None) -> S:
        """Open a stream; makes no audio. Raises EngineError, or OptionError where a setting forbids an option."""
        ...

    def extend(self, stream: S, text: str, last: bool) -> None:
        """More text for a stream whose request had last=False."""
        ...

    def step(self, streams: Sequence[S]) -> Sequence[Chunk | EngineError]:
        """Advance 1..max_batch open streams, any subset each time; one result each, a bad one fails alone."""
        ...

    def close(self, stream: S) -> None:
        """Between any two steps; idempotent; leaves no trace in other streams."""
        ...

    def unload(self) -> None:
        """Give the memory back; the model isn't used afterwards."""
        ...


class Engine(Protocol):
    """What a module of this package offers as `engine`. Importing it doesn't import the engine's library."""

    @property
    def info(self) -> Info: ...

    def identify(self, source: Source) -> Facts:
        """Cheap: reads at most a few files. Raises EngineUnavailable, or OptionError for a wrong setting."""
        ...

    def load(self, source: Source, device: str) -> Model[Any, Any]:
        """Called by the thread that will own the model. Raises EngineUnavailable."""
        ...


@runtime_checkable
class Fetching(Protocol):
    """An engine whose weights may have to be brought here first."""

    def fetch(self, source: Source) -> None:
        """Before each load, in a thread that nobody waits for, so that it may take as long as a network does.

        Raises EngineUnavailable.
        """
        ...
