"""What this process is fetching, for which engine, and how far it is; for whoever wants to see or tell it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    engine: str
    file: str
    """With the repository that it comes from."""
    done_bytes: int = 0
    total_bytes: int | None = None
    """None: nobody has said."""
    over: bool = False
    """Whether or not it is here."""


Watcher = Callable[[Download], None]

_lock = threading.Lock()
_under_way: dict[tuple[str, str], Download] = {}
_watchers: list[Watcher] = []


def tell(download: Download) -> None:
    """From any thread."""
    with _lock:
        _under_way.pop((download.engine, download.file), None)
        if not download.over:
            _under_way[download.engine, download.file] = download
        watchers = list(_watchers)
    for watcher in watchers:
        watcher(download)


def of(engine: str) -> list[Download]:
    """The latest news of those under way, the one that moved last at the end."""
    with _lock:
        return [download for download in _under_way.values() if download.engine == engine]


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """It is called by the threads that fetch, at each of their news."""
    with _lock:
        _watchers.append(watcher)
    try:
        yield
    finally:
        with _lock:
            _watchers.remove(watcher)
