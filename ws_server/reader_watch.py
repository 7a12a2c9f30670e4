"""A client that takes no byte for long is cut."""

import asyncio


class ReaderWatch:
    """Cuts a client that takes no byte for so long."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, after_s: float) -> None:
        self._transport = transport
        self._loop = loop
        self._after_s = after_s
        self._timer: asyncio.TimerHandle | None = None
        self._waiting_bytes = 0

    def begin(self) -> None:
        """It hasn't taken everything."""
        if self._timer is None:
            self._waiting_bytes = self._transport.get_write_buffer_size()
            self._timer = self._loop.call_later(self._after_s, self._check)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._timer = None
        if self._transport.get_write_buffer_size() < self._waiting_bytes:
            self.begin()
        else:
            self._transport.abort()


class WatchedReader(asyncio.Protocol):
    """Stands before a protocol of uvicorn's, which sets `_watch` when its connection is made."""

    stalled_reader_s = 60.0
    _watch: ReaderWatch | None = None

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._watch is not None:
            self._watch.begin()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._forget_reader()

    def _forget_reader(self) -> None:
        if self._watch is not None:
            self._watch.end()
