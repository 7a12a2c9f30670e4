"""Every message of saystream.v1, one type each.

Field meanings are in docs/protocol.md. Offsets (`*_char`) count Unicode code points of the utterance's whole
text; positions (`*_sample`, `samples`) count samples at the output rate on the utterance's own clock; `*_ms`
are milliseconds. `None` means that the field is left out.
"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

Id = Annotated[str, Meta(min_length=1, max_length=64)]
Format = Literal["s16le", "f32le", "mulaw", "alaw"]
SampleRate = Literal[8000, 16000, 22050, 24000, 44100, 48000]
Markup = Literal["markdown", "plain"]
DoneReason = Literal["complete", "cancelled", "replaced", "failed", "timeout"]
ByeReason = Literal["idle", "draining", "policy"]
Ms = Annotated[float, Meta(ge=0, le=1e9)]
Tag = Annotated[str, Meta(max_length=128)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Mark = Tag | Int64


class _Message(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    pass


# Client to server ---------------------------------------------------------------------------------------------


class Open(_Message, frozen=True, tag="open"):
    id: Id
    voice: Annotated[str, Meta(max_length=128)] | None = None
    engine: Annotated[str, Meta(max_length=64)] | None = None
    language: Annotated[str, Meta(max_length=64)] | None = None
    format: Format | None = None
    sample_rate_hz: SampleRate | None = None
    frame_ms: Annotated[int, Meta(ge=10, le=200)] | None = None
    speed: Annotated[float, Meta(gt=0, le=10)] | None = None
    lead_ms: Ms | None = None
    cushion_ms: Ms | None = None
    wait_ms: Ms | None = None
    words: bool = False
    cache: bool = True
    markup: Markup = "markdown"
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    options: dict[str, Any] | None = None
    tag: Tag | None = None
    replaces: Id | None = None
    replaced_played_ms: Ms | None = None


class Text(_Message, frozen=True, tag="text"):
    id: Id
    text: str


class Flush(_Message, frozen=True, tag="flush"):
    id: Id
    mark: Mark | None = None


class End(_Message, frozen=True, tag="end"):
    id: Id


class Cancel(_Message, frozen=True, tag="cancel"):
    id: Id
    played_ms: Ms | None = None


class CancelAll(_Message, frozen=True, tag="cancel_all"):
    pass


class Played(_Message, frozen=True, tag="played"):
    id: Id
    ms: Ms
    state: Literal["playing", "paused"] = "playing"


class Ping(_Message, frozen=True, tag="ping"):
    t: float | Int64 | Tag | UnsetType = UNSET


ClientMessage = Open | Text | Flush | End | Cancel | CancelAll | Played | Ping


# Server to client ---------------------------------------------------------------------------------------------


class WireLimits(Struct, frozen=True, kw_only=True):
    utterances: int
    text_chars: int
    total_chars: int
    message_bytes: int
    queue: int
    idle_s: float
    utterance_idle_s: float
    queue_wait_s: float
    lead_ms: float
    receipt_s: float
    wait_ms: float


class HeardText(Struct, frozen=True, kw_only=True):
    end_char: int
    exact: bool
    played_ms: float


class Stats(Struct, frozen=True, kw_only=True):
    """Where the time went; a `None` moment was never reached."""

    queue_ms: float
    ttfa_ms: float | None
    cut_ms: float | None
    wait_ms: float | None
    engine_ms: float | None
    send_ms: float | None
    audio_ms: float
    compute_ms: float
    segments: int
    forced_cuts: int
    gaps: int
    cache_hits: int
    unspoken_chars: int


class Hello(_Message, frozen=True, tag="hello"):
    protocol: str
    server: str
    session: str
    replica: str
    engine: str
    voice: str
    sample_rate_hz: int
    formats: list[str]
    limits: WireLimits
    load: float
    features: list[str]


class Queued(_Message, frozen=True, tag="queued"):
    id: str
    reason: Literal["busy", "loading"]
    position: int | None = None
    wait_ms: float | None = None


class Started(_Message, frozen=True, tag="started"):
    id: str
    engine: str
    checkpoint: str
    voice: str
    language: str
    format: Format
    sample_rate_hz: int
    words: Literal["exact", "estimated", "none"]


class Segment(_Message, frozen=True, tag="segment"):
    id: str
    index: int
    start_char: int
    end_char: int
    at_sample: int


class Words(_Message, frozen=True, tag="words"):
    id: str
    words: list[tuple[int, int, int, int]]


class Audio(_Message, frozen=True, tag="audio"):
    id: str
    seq: int
    at_sample: int
    pcm: bytes


class Flushed(_Message, frozen=True, tag="flushed"):
    id: str
    at_sample: int
    mark: str | int | None = None


class Done(_Message, frozen=True, tag="done"):
    id: str
    reason: DoneReason
    samples: int
    chars: int
    stats: Stats
    tag: str | None = None
    heard: HeardText | None = None


class Heard(_Message, frozen=True, tag="heard"):
    id: str
    end_char: int
    exact: bool
    played_ms: float


class Error(_Message, frozen=True, tag="error"):
    code: str
    message: str
    retryable: bool
    id: str | None = None
    retry_after_ms: float | None = None
    param: str | None = None
    value: Any = None


class Pong(_Message, frozen=True, tag="pong"):
    t: float | Int64 | str | UnsetType = UNSET


class Bye(_Message, frozen=True, tag="bye"):
    reason: ByeReason
    deadline_ms: float | None = None
    retry_after_ms: float | None = None


ServerMessage = (
    Hello | Queued | Started | Segment | Words | Audio | Flushed | Done | Heard | Error | Pong | Bye
)
