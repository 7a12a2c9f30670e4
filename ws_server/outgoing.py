"""What one utterance still has to send, in order; audio is encoded only when it is taken."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engines.contract import Samples
from protocol import messages as wire
from ws_server.audio.framer import Framer
from ws_server.heard import SpokenSegment, WordTime


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk of a segment's audio."""

    samples: Samples
    last: bool


@dataclass(frozen=True, slots=True)
class SegmentStart:
    """Announces a segment; again, with a larger `end_char`, when more of its words are known."""

    index: int
    spoken: SpokenSegment
    end_char: int


@dataclass(frozen=True, slots=True)
class WordTimes:
    spoken: SpokenSegment
    words: Sequence[WordTime]


@dataclass(frozen=True, slots=True)
class FlushMark:
    mark: str | int | None


@dataclass(frozen=True, slots=True)
class Ending:
    """The `done` of an utterance whose audio has all been sent by then."""

    make: Callable[[], wire.Done]


Item = wire.ServerMessage | Piece | SegmentStart | WordTimes | FlushMark | Ending


class Outgoing:
    """First in, first out. Positions are filled in when an item is taken, so they are true of what was sent."""

    def __init__(self, utterance_id: str, framer: Framer, slice_samples: int) -> None:
        """`slice_samples`: how much of a chunk is resampled at a time, so that a long one doesn't hold the loop."""
        self._id = utterance_id
        self._slice_samples = slice_samples
        self._items: deque[Item] = deque()
        self._framer = framer
        self._seq = 0
        self._frame: wire.Audio | None = None
        self.taken_samples = 0
        """Handed out as frames: the utterance's length as the client knows it."""

    def put(self, item: Item) -> None:
        self._items.append(item)

    def put_queued(self, message: wire.Queued) -> None:
        """The newest word about waiting replaces one that hasn't been sent."""
        if self._items and isinstance(self._items[-1], wire.Queued):
            self._items.pop()
        self._items.append(message)

    def drop_all(self) -> None:
        self._items.clear()
        self._frame = None

    def control(self) -> wire.ServerMessage | None:
        """Take the next message if it isn't audio; None: audio is next, or nothing."""
        while self._frame is None and self._items:
            match self._items[0]:
                case Piece(samples, last):
                    self._items.popleft()
                    if len(samples) > self._slice_samples:
                        self._items.appendleft(Piece(samples[self._slice_samples :], last))
                        samples, last = samples[: self._slice_samples], False
                    self._framer.push(samples, last)
                    self._make_frame()
                case SegmentStart(index, spoken, end_char):
                    self._items.popleft()
                    spoken.at_sample = min(spoken.at_sample, self.taken_samples)
                    return wire.Segment(
                        id=self._id,
                        index=index,
                        start_char=spoken.start_char,
                        end_char=end_char,
                        at_sample=spoken.at_sample,
                    )
                case WordTimes(spoken, words):
                    self._items.popleft()
                    base = spoken.at_sample
                    return wire.Words(id=self._id, words=[(a, b, base + s, base + e) for a, b, s, e in words])
                case FlushMark(mark):
                    self._items.popleft()
                    return wire.Flushed(id=self._id, mark=mark, at_sample=self.taken_samples)
                case Ending(make):
                    self._items.popleft()
                    return make()
                case message:
                    self._items.popleft()
                    return message
        return None

    @property
    def has_audio(self) -> bool:
        """True: a frame is ready. Meaningful after `control` returned None."""
        return self._frame is not None

    def audio(self) -> wire.Audio:
        """Take the ready frame."""
        frame = self._frame
        assert frame is not None  # noqa: S101 - our own order of calls
        self.taken_samples = self._framer.position_samples
        self._make_frame()
        return frame

    def _make_frame(self) -> None:
        at_sample = self._framer.position_samples
        pcm = self._framer.take()
        if pcm is None:
            self._frame = None
            return
        self._frame = wire.Audio(id=self._id, seq=self._seq, at_sample=at_sample, pcm=pcm)
        self._seq += 1
