"""Messages to talk about in tests."""

from typing import Any

from protocol.errors import NOTHING_SPOKEN, make_error
from protocol.limits import Limits
from protocol.messages import (
    Audio,
    Done,
    DoneReason,
    Error,
    Flushed,
    Heard,
    HeardText,
    Hello,
    Queued,
    Segment,
    Started,
    Words,
)

HEARD_NOTHING = HeardText(end_char=0, exact=True, played_ms=0)


def hello(limits: Limits | None = None) -> Hello:
    return Hello(
        protocol="saystream.v1",
        server="saystream/0",
        session="s",
        replica="r",
        engine="tone",
        voice="a4",
        sample_rate_hz=24000,
        formats=["s16le", "f32le", "mulaw", "alaw"],
        limits=(limits or Limits()).wire(),
        load=0.0,
        features=[],
    )


def queued(id_: str = "a") -> Queued:
    return Queued(id=id_, reason="busy", position=1)


def started(id_: str = "a", **fields: Any) -> Started:
    defaults: dict[str, Any] = {
        "engine": "tone",
        "checkpoint": "c",
        "voice": "a4",
        "language": "en",
        "format": "s16le",
        "sample_rate_hz": 24000,
        "words": "exact",
    }
    return Started(id=id_, **(defaults | fields))


def segment(
    index: int = 0, start_char: int = 0, end_char: int = 6, at_sample: int = 0, id_: str = "a"
) -> Segment:
    return Segment(id=id_, index=index, start_char=start_char, end_char=end_char, at_sample=at_sample)


def words(*times: tuple[int, int, int, int], id_: str = "a") -> Words:
    return Words(id=id_, words=list(times))


def audio(
    seq: int = 0, at_sample: int = 0, samples: int = 480, id_: str = "a", sample_bytes: int = 2
) -> Audio:
    return Audio(id=id_, seq=seq, at_sample=at_sample, pcm=bytes(samples * sample_bytes))


def flushed(at_sample: int = 0, mark: str | int | None = None, id_: str = "a") -> Flushed:
    return Flushed(id=id_, at_sample=at_sample, mark=mark)


def failure(id_: str = "a") -> Error:
    return make_error("engine_failed", "it failed", id=id_)


def done(reason: DoneReason = "complete", samples: int = 0, chars: int = 0, id_: str = "a") -> Done:
    heard = HEARD_NOTHING if reason in ("cancelled", "replaced") else None
    return Done(id=id_, reason=reason, samples=samples, chars=chars, stats=NOTHING_SPOKEN, heard=heard)


def heard(id_: str = "a") -> Heard:
    return Heard(id=id_, end_char=3, exact=False, played_ms=100)
