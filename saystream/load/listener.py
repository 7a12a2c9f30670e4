"""One simulated listener: has replies read to it, one after the other, and notes what it hears."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from protocol.codec import MSGPACK
from protocol.messages import (
    Audio,
    ClientMessage,
    Done,
    End,
    Error,
    Open,
    Queued,
    Segment,
    ServerMessage,
    Started,
    Stats,
    Text,
)
from protocol.order import SAMPLE_BYTES
from saystream.load.link import Link, frame
from saystream.load.playout import Playout
from saystream.load.replies import tokens

_ID = "a"
_RETRY_S = 1.0
"""After a refusal that doesn't say when to come back."""


@dataclass(slots=True)
class Notes:
    """What listeners have heard; one is kept for a whole crowd."""

    gaps: int = 0
    silent_s: float = 0.0
    heard_s: float = 0.0
    """Listener-seconds: from first sound to last, over all utterances."""
    utterances: int = 0
    unheard: int = 0
    """Utterances whose whole text was there and that hadn't begun to sound when it was over."""
    queued: int = 0
    refused: int = 0
    errors: list[str] = field(default_factory=list)
    stats: list[Stats] = field(default_factory=list)
    first_audio_ms: list[float] = field(default_factory=list)
    """From the sending of the token that completes the first segment to its first frame's arrival."""
    first_chars: list[int] = field(default_factory=list)
    before_last_token: int = 0
    """Utterances whose first audio came before their last token was sent."""


class Listener:
    """`tick` at its token rate; owned by one loop, not a task."""

    def __init__(
        self,
        link: Link,
        opening: Open,
        replies: Iterator[str],
        notes: Notes,
        clock: Callable[[], float],
        *,
        begins_at_s: float,
    ) -> None:
        self.link = link
        link.on_message = self._receive_bytes
        self._clock = clock
        self._opening = frame(_packed(opening))
        self._replies = replies
        self._notes = notes
        self._open = False
        self._again_at_s = begins_at_s
        self._tokens: Sequence[bytes] = ()
        self._sent = 0
        self._ends_char: list[int] = []
        self._sent_at_s: list[float] = []
        self._rate_hz = 0
        self._sample_bytes = 2
        self._playout: Playout | None = None
        self._cut_s = 0.0

    def tick(self, now_s: float) -> None:
        """Send the next token, or begin the next reply when the last has been heard."""
        if self.link.lost:
            return
        if self._open:
            if self._sent <= len(self._tokens):
                self._send_next(now_s)
        elif now_s >= self._again_at_s:
            self._begin(next(self._replies))

    def _begin(self, reply: str) -> None:
        parts = tokens(reply)
        self._tokens = [frame(_packed(Text(id=_ID, text=part))) for part in parts]
        ends, at = [], 0
        for part in parts:
            at += len(part)
            ends.append(at)
        self._ends_char = ends
        self._sent = 0
        self._sent_at_s = []
        self._playout = None
        self._open = True
        self.link.send(self._opening)

    def _send_next(self, now_s: float) -> None:
        if self._sent < len(self._tokens):
            self.link.send(self._tokens[self._sent])
        else:
            self.link.send(_END)
        self._sent_at_s.append(now_s)
        self._sent += 1

    def _receive_bytes(self, data: bytes) -> None:
        self.receive(MSGPACK.decode_server(data), self._clock())

    def receive(self, message: ServerMessage, now_s: float) -> None:
        notes = self._notes
        match message:
            case Audio(pcm=pcm):
                self._hear(len(pcm) // self._sample_bytes, now_s)
            case Segment(end_char=end_char, at_sample=at_sample):
                self._cut_s = self._known_at_s(end_char)
                if at_sample == 0:
                    notes.first_chars.append(end_char)
            case Started(sample_rate_hz=rate_hz, format=audio_format):
                self._playout = Playout(rate_hz)
                self._sample_bytes = SAMPLE_BYTES[audio_format]
            case Done():
                self._finish(message, now_s)
            case Queued():
                notes.queued += 1
            case Error(id=None):
                notes.errors.append(f"{message.code}: {message.message}")
            case Error():
                notes.errors.append(f"{message.code}: {message.message}")
                self._again_at_s = now_s + (message.retry_after_ms or 1000 * _RETRY_S) / 1000
            case _:
                pass

    def _hear(self, samples: int, now_s: float) -> None:
        playout = self._playout
        if playout is None:
            return
        if playout.received_s == 0:
            self._notes.first_audio_ms.append(1000 * (now_s - self._cut_s))
            self._notes.before_last_token += self._sent < len(self._tokens)
        playout.frame(samples, self._cut_s, now_s)

    def _known_at_s(self, end_char: int) -> float:
        """When the token after the segment's end had been sent: only then can an end be certain."""
        at = bisect_left(self._ends_char, end_char + 1)
        return self._sent_at_s[min(at, len(self._sent_at_s) - 1)]

    def _finish(self, done: Done, now_s: float) -> None:
        self._open = False
        notes = self._notes
        if done.reason != "complete":
            notes.refused += 1
            return
        notes.utterances += 1
        notes.stats.append(done.stats)
        if self._playout is not None:
            self._again_at_s = self._playout.complete(now_s)
            self._note_playout(self._playout, self._playout.received_s)

    def stop(self, now_s: float) -> None:
        """Hang up; what has been heard so far counts, and so does a silence that is still going on."""
        self.link.abort()
        if not self._open:
            return
        ended = self._sent > len(self._tokens)
        playout = self._playout
        if playout is None:
            self._notes.unheard += ended
            return
        if ended and playout.dry_s is not None:
            playout.frame(0, self._sent_at_s[-1], now_s)
        ahead_s = 0.0 if playout.dry_s is None else max(0.0, playout.dry_s - now_s)
        self._note_playout(playout, playout.received_s - ahead_s)

    def _note_playout(self, playout: Playout, heard_s: float) -> None:
        self._notes.gaps += playout.gaps
        self._notes.silent_s += playout.silent_s
        self._notes.heard_s += heard_s + playout.silent_s


def _packed(message: ClientMessage) -> bytes:
    data = MSGPACK.encode_client(message)
    assert isinstance(data, bytes)  # noqa: S101 - what MSGPACK makes
    return data


_END = frame(_packed(End(id=_ID)))


def opening(**fields: object) -> Open:
    """What was said before isn't asked for: this is about what the machine can make."""
    return Open(id=_ID, **{"cache": False, **fields})  # type: ignore[arg-type]
