"""The asynchronous client: many utterances over one connection, and a new connection when it is lost."""

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from ssl import SSLContext
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

from protocol.messages import Format, Hello, Markup, SampleRate
from saystream import address, backoff
from saystream.connection import Connection
from saystream.dial import Access, dial
from saystream.errors import CannotConnect, ClientError, HandshakeRefused
from saystream.inbox import Inbox
from saystream.utterance import Utterance

_CLOSE_S = 1.0
"""For the server's answer to a close; one that doesn't answer is left."""
_MIB = 1 << 20


class OpenFields(TypedDict, total=False):
    """The fields of `open`, as docs/protocol.md has them."""

    voice: str
    engine: str
    language: str
    format: Format
    sample_rate_hz: SampleRate
    frame_ms: int
    speed: float
    lead_ms: float
    cushion_ms: float
    wait_ms: float
    words: bool
    cache: bool
    markup: Markup
    seed: int
    options: dict[str, Any]
    tag: str
    replaced_played_ms: float


class Client:
    """Connects on entering; leaving cancels what is open. Belongs to the event loop it was entered in.

    It always reads, so that one slow utterance never holds up the others: each keeps at most `buffer_ms` of audio
    that nobody has taken yet, then its server is told to pause; `buffer_bytes` is the end (SlowConsumer).
    """

    def __init__(
        self,
        url: str = address.DEFAULT_URL,
        *,
        key: str | None = None,
        token: str | Callable[[], Awaitable[str]] | None = None,
        ssl: SSLContext | None = None,
        json: bool = False,
        connect_s: float = 10,
        reconnect_s: float = 10,
        buffer_ms: float = 10_000,
        buffer_bytes: int = 64 * _MIB,
    ) -> None:
        """`token`: a function is called for each connection, as a token opens only one.

        `reconnect_s`: how long a new utterance may try to get a new connection; the first one is tried once.
        """
        self._access = Access(address.parse(url), key, token, ssl, json, connect_s)
        self._reconnect_s = reconnect_s
        self._buffer_ms = buffer_ms
        self._buffer_bytes = buffer_bytes
        self._ids = itertools.count(1)
        self._connecting = asyncio.Lock()
        self._connection: Connection | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._runs: dict[asyncio.Task[None], Connection] = {}

    @property
    def hello(self) -> Hello:
        """What the server said of itself on the newest connection: defaults, limits, load."""
        if self._connection is None:
            raise ClientError("the client isn't connected: use `async with Client(...)`")
        return self._connection.hello

    @property
    def usable(self) -> bool:
        """Whether the next utterance goes over the present connection, not over a new one."""
        return self._connection is not None and self._connection.usable

    def utterance(
        self,
        *,
        utterance_id: str | None = None,
        replaces: Utterance | str | None = None,
        **fields: Unpack[OpenFields],
    ) -> Utterance:
        """To be entered with `async with`. `replaces` cancels that one in the same step."""
        return Utterance(
            self,
            utterance_id or f"u{next(self._ids)}",
            dict(fields),
            replaces,
            Inbox(self._buffer_ms, self._buffer_bytes),
        )

    async def open(self, utterance: Utterance) -> Connection:
        """What an Utterance calls on entering."""
        connection = await self._usable_connection()
        await connection.open(utterance)
        return connection

    async def __aenter__(self) -> Self:
        if self._tasks is not None:
            raise RuntimeError("a client is entered once")
        connection = await dial(self._access)
        self._tasks = await asyncio.TaskGroup().__aenter__()
        self._start(connection)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks, self._tasks = self._tasks, None
        connections = list(self._runs.values())
        for run in self._runs:
            run.cancel()
        if tasks is None:
            return
        # The body's own error goes on as it is; only a cancellation may be the task group's own doing.
        of_group = isinstance(error, asyncio.CancelledError)
        try:
            await tasks.__aexit__(*((kind, error, trace) if of_group else (None, None, None)))
        finally:
            for connection in connections:  # a run that was cancelled before its first step has ended nothing
                connection.abort()

    async def _usable_connection(self) -> Connection:
        async with self._connecting:  # utterances that come at once share the new connection
            if self._connection is None or self._tasks is None:
                raise ClientError("the client isn't connected: use `async with Client(...)`")
            if not self._connection.usable:
                self._start(await self._dial_again())
            return self._connection

    async def _dial_again(self) -> Connection:
        deadline_s = asyncio.get_running_loop().time() + self._reconnect_s
        for delay_s in backoff.delays_s(random.Random()):  # noqa: S311 - jitter
            await asyncio.sleep(delay_s)
            try:
                return await dial(self._access)
            except (CannotConnect, HandshakeRefused) as error:
                if isinstance(error, HandshakeRefused) and not error.retryable:
                    raise
                pause_s = getattr(error, "retry_after_s", None) or 0.0
                if asyncio.get_running_loop().time() + pause_s >= deadline_s:
                    raise
                await asyncio.sleep(pause_s)
        raise AssertionError("the delays have no end")

    def _start(self, connection: Connection) -> None:
        assert self._tasks is not None  # noqa: S101 - the callers have looked
        self._connection = connection
        run = self._tasks.create_task(_run(connection))
        self._runs[run] = connection
        run.add_done_callback(self._runs.pop)


async def _run(connection: Connection) -> None:
    try:
        await connection.run()
    finally:
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await connection.close()
        connection.abort()
