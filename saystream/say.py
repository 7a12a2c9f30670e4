"""`saystream say`: speaks an argument or what comes on standard input, while it comes."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from protocol.messages import Audio, Done, Queued, Started
from protocol.order import SAMPLE_BYTES
from saystream import pipes, player
from saystream.client import Client, OpenFields
from saystream.errors import ClientError
from saystream.progress import Progress
from saystream.sinks import FileSink, PipeSink, Sink
from saystream.utterance import Frame, Utterance

INTERRUPTED = 130
"""What shells report for a program that SIGINT ended."""
_REPORT_S = 0.5
_STDIN, _STDOUT = 0, 1


class NowhereToPlayError(Exception):
    """Neither a loudspeaker nor a file or pipe; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    url: str
    key: str | None
    text: str | None
    """None: standard input, as it comes."""
    output: str | None
    """A path, "-" for standard output; None: the loudspeaker, else standard output."""
    raw: bool
    verbose: bool
    fields: OpenFields


async def say(order: Order) -> int:
    """The exit status. Raises ClientError (in a group), NowhereToPlayError, OSError."""
    sink = _choose_sink(order)
    progress = Progress(sys.stderr, verbose=order.verbose)
    fields = order.fields
    if isinstance(sink, FileSink) and order.text is not None:
        fields = OpenFields(lead_ms=0) | fields  # nobody listens: as fast as it can be made
    source = pipes.increments(_STDIN) if order.text is None else _whole(order.text)
    try:
        async with Client(order.url, key=order.key) as client, client.utterance(**fields) as utterance:
            return await _Speaking(utterance, sink, progress).run(source)
    finally:
        progress.clear()
        await asyncio.to_thread(sink.close)


def _choose_sink(order: Order) -> Sink:
    if order.output is not None and order.output != "-":
        path = Path(order.output)
        return FileSink(path, raw=order.raw or path.suffix in {".raw", ".pcm"})
    if order.output is None and player.available():
        return player.Player()
    if sys.stdout.isatty():
        raise NowhereToPlayError(
            "nothing to play with here: pip install 'saystream[play]', write to a file with -o FILE, "
            "or pipe into a player: saystream say ... | ffplay -nodisp -autoexit -"
        )
    return PipeSink(_STDOUT, raw=order.raw)


async def _whole(text: str) -> AsyncIterator[str]:
    yield text


class _Speaking:
    def __init__(self, utterance: Utterance, sink: Sink, progress: Progress) -> None:
        self._utterance = utterance
        self._sink = sink
        self._progress = progress
        self._text: list[str] = []

    async def run(self, source: AsyncIterator[str]) -> int:
        interrupted = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, interrupted.set)
        try:
            async with asyncio.TaskGroup() as tasks:
                hearing = tasks.create_task(self._hear())
                watching = tasks.create_task(interrupted.wait())
                others = [watching, tasks.create_task(self._feed(source)), tasks.create_task(self._report())]
                await asyncio.wait({hearing, watching}, return_when=asyncio.FIRST_COMPLETED)
                if not hearing.done():
                    hearing.cancel()
                    await self._stop()
                for task in others:
                    task.cancel()
        finally:
            loop.remove_signal_handler(signal.SIGINT)
        return INTERRUPTED if interrupted.is_set() else 0

    async def _feed(self, source: AsyncIterator[str]) -> None:
        with suppress(ClientError):  # whoever hears is told, too
            async for text in source:
                self._text.append(text)
                self._progress.fed()
                await self._utterance.feed(text)
            await self._utterance.end()

    async def _hear(self) -> None:
        audio_s = 0.0
        started: Started | None = None
        async for event in self._utterance.events():
            match event:
                case Queued():
                    self._progress.queued(event)
                case Started():
                    started = event
                    await self._sink.start(event)
                case Audio() if started is not None:
                    frame = Frame(event.pcm, event.at_sample, started.format, started.sample_rate_hz)
                    samples = event.at_sample + len(event.pcm) // SAMPLE_BYTES[started.format]
                    audio_s = samples / started.sample_rate_hz
                    self._progress.audio(audio_s)
                    await self._sink.write(frame)
                case Done():
                    await self._sink.finish()
                    self._progress.done(event, audio_s)
                case _:
                    pass

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(_REPORT_S)
            played_ms = self._sink.played_ms()
            if played_ms:
                self._utterance.played(played_ms)

    async def _stop(self) -> None:
        heard = await self._utterance.cancel(self._sink.played_ms())
        self._progress.interrupted("".join(self._text), heard)
