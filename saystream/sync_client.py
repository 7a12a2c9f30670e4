"""The plain client for scripts: the asynchronous one, run by a thread of its own."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack

from protocol.messages import Done, HeardText, Hello, Started
from saystream import address
from saystream.client import Client, OpenFields
from saystream.errors import ClientError
from saystream.inbox import UtteranceMessage
from saystream.utterance import Frame, Utterance

T = TypeVar("T")


class SyncClient:
    """`with` starts the thread and connects; leaving cancels what is open and ends the thread.

    May be used by several threads, one of them for each utterance's audio. Takes what `Client` takes.
    """

    def __init__(self, url: str = address.DEFAULT_URL, **settings: Any) -> None:
        self._url = url
        self._settings = settings
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Client | None = None
        self._leave: asyncio.Event | None = None
        self._entered: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="saystream-client", daemon=True)

    @property
    def hello(self) -> Hello:
        return self._open_client().hello

    @property
    def running(self) -> bool:
        return self._loop is not None and self._thread.is_alive() and not self._loop.is_closed()

    def utterance(
        self,
        *,
        utterance_id: str | None = None,
        replaces: "SyncUtterance | str | None" = None,
        **fields: Unpack[OpenFields],
    ) -> "SyncUtterance":
        async def make() -> Utterance:
            replaced = replaces.inner if isinstance(replaces, SyncUtterance) else replaces
            return self._open_client().utterance(utterance_id=utterance_id, replaces=replaced, **fields)

        return SyncUtterance(self, self.call(make()))

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run it in the client's thread and wait for it; Ctrl-C cancels it."""
        if self._loop is None or not self.running:
            coroutine.close()
            raise ClientError("the client isn't connected: use `with SyncClient(...)`")
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise ClientError("the client was closed") from None
        except KeyboardInterrupt:
            future.cancel()
            raise

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._entered.result()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _open_client(self) -> Client:
        if self._client is None:
            raise ClientError("the client isn't connected: use `with SyncClient(...)`")
        return self._client

    def _stop(self) -> None:
        if self._loop is not None and self._leave is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._leave.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._live())
        except BaseException as error:  # handed to the thread that waits in __enter__
            if self._entered.done():
                raise
            self._entered.set_exception(error)

    async def _live(self) -> None:
        self._leave = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        async with Client(self._url, **self._settings) as client:
            self._client = client
            self._entered.set_result(None)
            await self._leave.wait()


class SyncUtterance:
    """An `Utterance` whose calls block. `with` opens it; leaving cancels it unless it is done."""

    def __init__(self, client: SyncClient, inner: Utterance) -> None:
        self.inner = inner
        self._client = client

    @property
    def id(self) -> str:
        return self.inner.id

    @property
    def started(self) -> Started | None:
        return self.inner.started

    def feed(self, text: str) -> None:
        self._client.call(self.inner.feed(text))

    def flush(self, mark: str | int | None = None) -> None:
        self._client.call(self.inner.flush(mark))

    def end(self) -> None:
        self._client.call(self.inner.end())

    def played(self, ms: float, state: Literal["playing", "paused"] = "playing") -> None:
        async def report() -> None:
            self.inner.played(ms, state)

        self._client.call(report())

    def cancel(self, played_ms: float | None = None) -> HeardText:
        return self._client.call(self.inner.cancel(played_ms))

    def wait_done(self) -> Done:
        async def wait() -> Done:
            return await self.inner.done

        return self._client.call(wait())

    def __iter__(self) -> Iterator[Frame]:
        return self._drain(aiter(self.inner))

    def events(self) -> Iterator[UtteranceMessage]:
        return self._drain(self.inner.events())

    def _drain(self, source: Any) -> Iterator[Any]:
        async def take() -> Any:
            return await anext(source, None)  # StopAsyncIteration doesn't pass through a future

        try:
            while (item := self._client.call(take())) is not None:
                yield item
        finally:
            if self._client.running:
                self._client.call(source.aclose())

    def __enter__(self) -> Self:
        self._client.call(self.inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client.running:
            self._client.call(self.inner.__aexit__(kind, error, trace))
