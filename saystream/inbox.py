"""What has come in for one utterance: kept until it is taken, counted, and measured against its bounds."""

from collections import deque
from dataclasses import dataclass, field
from typing import assert_never

from protocol.messages import (
    Audio,
    Done,
    Error,
    Flushed,
    Heard,
    HeardText,
    Played,
    Queued,
    Segment,
    Started,
    Words,
)
from protocol.order import SAMPLE_BYTES
from saystream import heard

UtteranceMessage = Queued | Started | Segment | Words | Audio | Flushed | Error | Done


@dataclass(slots=True)
class Inbox:
    """Pure; `receive` in the order of arrival, `take` in the same order."""

    buffer_ms: float
    """More than this waiting: `full` turns true, and false again at half of it."""
    buffer_bytes: int
    """More than this waiting: `overflowing`."""
    started: Started | None = None
    error: Error | None = None
    done: Done | None = None
    receipt: HeardText | None = None
    transcript: heard.Transcript = field(default_factory=heard.Transcript)
    full: bool = False
    waiting_bytes: int = 0
    received_samples: int = 0
    taken_samples: int = 0
    _messages: deque[UtteranceMessage] = field(default_factory=deque)
    _dropping: bool = False

    def receive(self, message: UtteranceMessage | Heard) -> None:
        match message:
            case Heard(end_char=end_char, exact=exact, played_ms=played_ms):
                self.receipt = HeardText(end_char=end_char, exact=exact, played_ms=played_ms)
                return
            case Started():
                self.started = message
            case Segment():
                self.transcript.add_segment(message)
            case Words():
                self.transcript.words.extend(message.words)
            case Audio():
                self._count(message)
            case Error():
                self.error = message
            case Done():
                self.done = message
            case Queued() | Flushed():
                pass
            case _:
                assert_never(message)
        if not self._dropping or isinstance(message, Error | Done):
            self._messages.append(message)

    def take(self) -> UtteranceMessage | None:
        """The oldest message that waits."""
        if not self._messages:
            return None
        message = self._messages.popleft()
        if isinstance(message, Audio):
            self.waiting_bytes -= len(message.pcm)
            self.taken_samples = message.at_sample + self._samples(message)
            self.full = self.full and self._waiting_ms() > self.buffer_ms / 2
        return message

    def drop(self) -> None:
        """Nobody will take what waits, nor any audio that still comes."""
        self._dropping = True
        self._messages.clear()
        self.waiting_bytes = 0

    @property
    def overflowing(self) -> bool:
        return self.waiting_bytes > self.buffer_bytes

    def ms(self, samples: int) -> float:
        return 0.0 if self.started is None else 1000 * samples / self.started.sample_rate_hz

    def estimate(self, report: Played | None, since_report_s: float) -> HeardText:
        """What was heard, from the listener's last report, else from what was taken."""
        if self.started is None:
            return HeardText(end_char=0, exact=True, played_ms=0.0)
        heard_samples = self.taken_samples
        if report is not None:
            running_s = since_report_s if report.state == "playing" else 0.0
            heard_samples = int((report.ms / 1000 + running_s) * self.started.sample_rate_hz)
        return heard.heard(
            self.transcript,
            sample_rate_hz=self.started.sample_rate_hz,
            heard_samples=heard_samples,
            received_samples=self.received_samples,
        )

    def _count(self, audio: Audio) -> None:
        self.received_samples = audio.at_sample + self._samples(audio)
        if not self._dropping:
            self.waiting_bytes += len(audio.pcm)
            self.full = self.full or self._waiting_ms() > self.buffer_ms

    def _samples(self, audio: Audio) -> int:
        assert self.started is not None  # noqa: S101 - the conversation has checked the order
        return len(audio.pcm) // SAMPLE_BYTES[self.started.format]

    def _waiting_ms(self) -> float:
        return self.ms(self.received_samples - self.taken_samples)
