"""One utterance as its user sees it: text goes in, audio comes out."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Generator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Protocol, Self

from protocol.messages import (
    Audio,
    Cancel,
    ClientMessage,
    Done,
    End,
    Flush,
    Format,
    Heard,
    HeardText,
    Hello,
    Played,
    Started,
    Text,
)
from protocol.surrogates import SurrogateJoiner
from saystream.errors import (
    ClientError,
    ConnectionLost,
    Refused,
    SlowConsumer,
    UtteranceFailed,
    UtteranceOver,
)
from saystream.inbox import Inbox, UtteranceMessage

_RECEIPT_WAIT_S = 5.0
"""A receipt that hasn't come by then ran out on the way: the server ignores what it no longer knows."""


@dataclass(frozen=True, slots=True)
class Frame:
    pcm: bytes
    """Whole samples, mono, in `format`."""
    at_sample: int
    format: Format
    sample_rate_hz: int


class LineDown(Exception):  # noqa: N818 - named by situation; never reaches a user
    pass


class Line(Protocol):
    """The connection that an utterance is spoken over."""

    @property
    def hello(self) -> Hello: ...

    async def send(self, message: ClientMessage) -> None:
        """Written before the first await. Raises LineDown, once every utterance has been told by `lose`."""
        ...

    def post(self, message: Played | Cancel) -> None:
        """Send soon, without waiting; the last `played` of an utterance takes an earlier one's place."""
        ...

    def expect_receipt(self, utterance: "Utterance") -> None: ...


class Opener(Protocol):
    async def open(self, utterance: "Utterance") -> Line: ...


class Utterance:
    """Made by `Client.utterance`; belongs to the event loop of its client.

    `async with` opens it; leaving cancels it unless it is done. One task may feed while another iterates; not more
    than one may iterate. Cancelling a call leaves nothing half-sent, but for a `feed` of a text longer than the
    server's `text_chars`: its first parts may have gone.
    """

    def __init__(
        self,
        opener: Opener,
        utterance_id: str,
        fields: dict[str, Any],
        replaces: "Utterance | str | None",
        inbox: Inbox,
    ) -> None:
        self.id = utterance_id
        self.fields = fields
        self.replaces = replaces
        self._opener = opener
        self._inbox = inbox
        self._line: Line | None = None
        self._joiner = SurrogateJoiner()
        self._ended = False
        self._iterating = False
        self._awaiting_done = 0
        self._changed = asyncio.Event()
        self._done_at_s = 0.0
        self._report: Played | None = None
        self._report_at_s = 0.0
        self._told_to_hold = False
        self._line_lost = False
        self._lost: ClientError | None = None

    # Text in ------------------------------------------------------------------------------------------------

    async def feed(self, text: str) -> None:
        """The next increment, kept verbatim. Raises Refused, UtteranceFailed, UtteranceOver, ConnectionLost."""
        self._check_takes_text()
        await self._send_text(self._joiner.feed(text))

    async def flush(self, mark: str | int | None = None) -> None:
        """Speak all that has been fed, cut here; `Flushed` with `mark` follows its audio in `events()`."""
        self._check_takes_text()
        await self._send_text(self._joiner.finish())
        await self._send(Flush(id=self.id, mark=mark))

    async def end(self) -> None:
        """No more text."""
        self._check_takes_text()
        await self._send_text(self._joiner.finish())
        self._ended = True
        await self._send(End(id=self.id))

    async def _send_text(self, text: str) -> None:
        step_chars = max(1, self._open_line().hello.limits.text_chars)
        for at in range(0, len(text), step_chars):
            part = text[at : at + step_chars]
            self._inbox.transcript.text.append(part)
            await self._send(Text(id=self.id, text=part))

    async def _send(self, message: ClientMessage) -> None:
        try:
            await self._open_line().send(message)
        except LineDown as down:
            self.lose(str(down))
            raise (self._lost or ConnectionLost(str(down), self._estimate())) from None

    def _open_line(self) -> Line:
        if self._line is None:
            raise UtteranceOver("not open: use `async with client.utterance() as u`")
        return self._line

    def _check_takes_text(self) -> None:
        self._raise_failure()
        self._open_line()
        if self._inbox.done is not None:
            raise UtteranceOver(f"the utterance is over: {self._inbox.done.reason}", self._inbox.done)
        if self._ended:
            raise UtteranceOver("no text can follow `end`")

    # Audio out ----------------------------------------------------------------------------------------------

    @property
    def started(self) -> Started | None:
        """What is spoken and in which format; there before the first frame is."""
        return self._inbox.started

    @property
    def done(self) -> Awaitable[Done]:
        """Await it for the end; raises as iterating does. Audio that nobody takes meanwhile is kept."""
        return _Ending(self)

    async def __aiter__(self) -> AsyncIterator[Frame]:
        """Frames as they come, to the end. Raises when the utterance fails or its connection is lost."""
        async for event in self.events():
            if isinstance(event, Audio) and self.started is not None:
                yield Frame(event.pcm, event.at_sample, self.started.format, self.started.sample_rate_hz)

    async def events(self) -> AsyncIterator[UtteranceMessage]:
        """Every message of the utterance, `Done` the last. Raises as iterating over the audio does."""
        if self._iterating:
            raise RuntimeError("an utterance can be iterated by one task at a time")
        self._iterating = True
        try:
            while not isinstance(event := await self._next_event(), Done):
                yield event
            self._raise_failure()
            yield event
        finally:
            self._iterating = False

    async def _next_event(self) -> UtteranceMessage:
        while (event := self._inbox.take()) is None:
            if self._lost is not None:
                raise self._lost
            self._open_line()
            if self._inbox.done is not None:  # taken before
                self._raise_failure()
                return self._inbox.done
            await self._change()
        self._hold_back_or_go_on()
        return event

    async def _wait_done(self) -> Done:
        while self._inbox.done is None:
            if self._lost is not None:
                raise self._lost
            await self._change()
        return self._inbox.done

    async def _wait_well_done(self) -> Done:
        self._awaiting_done += 1
        try:
            self._hold_back_or_go_on()
            done = await self._wait_done()
        finally:
            self._awaiting_done -= 1
        self._raise_failure()
        return done

    async def _change(self) -> None:
        # Several may wait at once: each has looked at the state just before it clears.
        self._changed.clear()
        await self._changed.wait()

    def _raise_failure(self) -> None:
        if self._lost is not None:
            raise self._lost
        error, done = self._inbox.error, self._inbox.done
        if error is not None and done is not None:
            raise (Refused if self.started is None else UtteranceFailed)(error, done)

    # The listener -------------------------------------------------------------------------------------------

    def played(self, ms: float, state: Literal["playing", "paused"] = "playing") -> None:
        """Report the listener's playhead: at start, underrun, pause and resume, and every 0.25 to 1 s.

        Never waits.
        """
        self._report = Played(id=self.id, ms=ms, state=state)
        self._report_at_s = _now_s()
        self._post_report()

    async def cancel(self, played_ms: float | None = None) -> HeardText:
        """Stop now, and say what the listener has heard. Audio that wasn't taken is dropped.

        It can be asked after the last frame has come too, as long as the server keeps the receipt.
        """
        line = self._open_line()
        self._inbox.drop()
        if self._inbox.done is None and self._lost is None:
            await self._send(Cancel(id=self.id, played_ms=played_ms))
        done = await self._wait_done()
        if done.heard is not None:
            return done.heard
        if done.reason == "complete":
            return await self._receipt(done, played_ms, line)
        return self._estimate()

    def _awaits_receipt(self) -> bool:
        return self._inbox.receipt is None and not self._line_lost

    async def _receipt(self, done: Done, played_ms: float | None, line: Line) -> HeardText:
        if self._awaits_receipt() and _now_s() - self._done_at_s < line.hello.limits.receipt_s:
            try:
                async with asyncio.timeout(_RECEIPT_WAIT_S):
                    line.expect_receipt(self)
                    await self._send(Cancel(id=self.id, played_ms=played_ms))
                    while self._awaits_receipt():
                        await self._change()
            except (TimeoutError, ConnectionLost):
                return self._estimate()
        everything = HeardText(end_char=done.chars, exact=False, played_ms=self._inbox.ms(done.samples))
        return self._inbox.receipt or everything

    def _hold_back_or_go_on(self) -> None:
        """Freeze the server's clock while too much waits here, so that it stops sending.

        Not while `done` is awaited and nobody takes audio: it would never come.
        """
        hold = self._inbox.full and (self._iterating or not self._awaiting_done)
        if hold != self._told_to_hold:
            self._told_to_hold = hold
            self._post_report()

    def _post_report(self) -> None:
        if self._line is None or self._inbox.done is not None or self._lost is not None:
            return
        report = self._report or Played(id=self.id, ms=self._inbox.ms(self._inbox.taken_samples))
        state = "paused" if self._told_to_hold else report.state
        self._line.post(Played(id=self.id, ms=report.ms, state=state))

    def _estimate(self) -> HeardText:
        return self._inbox.estimate(self._report, _now_s() - self._report_at_s)

    # Lifetime -----------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._line is not None:
            raise RuntimeError("an utterance is opened once")
        self._line = await self._opener.open(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_up()

    def _give_up(self) -> None:
        if self._inbox.done is not None:
            return
        self._inbox.drop()
        if self._line is not None and not isinstance(self._lost, ConnectionLost):
            self._line.post(Cancel(id=self.id))

    # Called by the connection, in the order of arrival; never waits -----------------------------------------

    def receive(self, message: UtteranceMessage | Heard) -> None:
        self._inbox.receive(message)
        if isinstance(message, Done):
            self._done_at_s = _now_s()
        if self._inbox.overflowing and self._lost is None:
            self._lost = SlowConsumer(self._inbox.waiting_bytes)
            self._give_up()
        self._hold_back_or_go_on()
        self._changed.set()

    def lose(self, reason: str) -> None:
        """The connection is gone."""
        self._line_lost = True
        if self._lost is None and self._inbox.done is None:
            self._lost = ConnectionLost(reason, self._estimate())
        self._changed.set()


class _Ending:
    """An awaitable that makes no coroutine until it is awaited, so that looking at `done` costs nothing."""

    def __init__(self, utterance: Utterance) -> None:
        self._utterance = utterance

    def __await__(self) -> Generator[Any, None, Done]:
        return self._utterance._wait_well_done().__await__()  # noqa: SLF001 - the other half of the same class


def _now_s() -> float:
    return asyncio.get_running_loop().time()
