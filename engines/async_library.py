"""An event loop in a thread of its own, for a library that is asynchronous under a lane that isn't."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class LibraryLoop:
    """From its making to its `end`. Its other methods are called from one thread, never from the loop's own."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def call(self, make: Callable[[], Awaitable[T]]) -> T:
        """`make` is called on the loop, and what it gives is awaited there; blocks. Raises what it does."""

        async def made() -> T:
            return await make()

        return self.run(made()).result()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> "Future[T]":
        """Cancelling what is returned cancels the coroutine, and waits for nothing."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def end(self) -> None:
        """Whatever still runs on it is cancelled, and has ended when this returns; a second one does nothing."""
        if self._loop.is_closed():
            return
        self.run(_cancel_others()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others)
