"""The line that tells a terminal what a server fetches while somebody waits for an engine."""

import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self, TextIO

from saystream.asking import ask
from saystream.errors import CannotConnect, HandshakeRefused
from saystream.terminal import plain

_EVERY_S = 0.5


class DownloadLine:
    """`with` it around the wait. Writes nothing where the stream is no terminal."""

    def __init__(self, url: str, key: str | None, engine: str, stream: TextIO) -> None:
        self._url = url
        self._key = key
        self._engine = engine
        self._stream = stream
        self._over = threading.Event()
        self._shown = False
        self._thread = threading.Thread(target=self._run, name="download line", daemon=True)

    def __enter__(self) -> Self:
        if self._stream.isatty():
            self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._shown:
            self._show("")

    def _run(self) -> None:
        while not self._over.wait(_EVERY_S):
            try:
                rows = ask(self._url, "/v1/engines", self._key)["engines"]
            except (CannotConnect, HandshakeRefused):
                continue
            news = [row["download"] for row in rows if row["name"] == self._engine and "download" in row]
            if news:
                self._show(f"fetching {plain(news[0]['file'])}: {amount(news[0])}")

    def _show(self, line: str) -> None:
        self._stream.write(f"\r\x1b[K{line}")
        self._stream.flush()
        self._shown = True


def amount(download: Mapping[str, Any]) -> str:
    """How much of it is there."""
    total_bytes = download.get("total_bytes")
    of = "" if total_bytes is None else f" of {total_bytes / 1e6:.0f}"
    return f"{download['done_bytes'] / 1e6:.0f}{of} MB"
