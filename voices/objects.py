"""A folder of objects, written whole or not at all."""

import logging
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, ObjectStore

from voices.errors import StoreFailed

log = logging.getLogger(__name__)

_REASON = re.compile(r"([^:\n]+) \(os error \d+\)")


class Objects:
    """Blocks, so not for an event loop; every thread may use it. Each method raises StoreFailed.

    A local folder is made at the first write: a server that keeps nothing leaves nothing behind.
    """

    def __init__(self, root: Path | None) -> None:
        """None: there is nowhere to write to."""
        self._root = root
        self._opened: ObjectStore | None = None
        self._lock = threading.Lock()

    def get(self, path: str) -> bytes | None:
        with _failures():
            store = self._store()
            if store is None:
                return None
            try:
                return obstore.get(store, path).bytes().to_bytes()
            except FileNotFoundError:
                return None

    def put(self, path: str, data: bytes, *, replace: bool) -> bool:
        """False: there is one already, and it stays."""
        with _failures():
            store = self._store(make=True)
            if store is None:
                raise StoreFailed("there is no folder for voices: the setting voices_dir names one")
            try:
                # In one piece: a local store creates an object in parts only by overwriting.
                obstore.put(store, path, data, mode="overwrite" if replace else "create", use_multipart=False)
            except AlreadyExistsError:
                return False
            return True

    def delete(self, path: str) -> bool:
        """False: there was none."""
        with _failures():
            store = self._store()
            if store is None:
                return False
            try:
                obstore.delete(store, path)
            except FileNotFoundError:
                return False
            return True

    def sizes_bytes(self, prefix: str) -> dict[str, tuple[int, float]]:
        """Paths under the prefix: length in bytes, and when it was written (seconds since 1970)."""
        found = {}
        with _failures():
            store = self._store()
            if store is not None:
                for batch in obstore.list(store, prefix):
                    for meta in batch:
                        found[meta["path"]] = (meta["size"], meta["last_modified"].timestamp())
        return found

    def sweep(self, pattern: str, older_than_s: float) -> None:
        """Remove what a process that was killed had begun to write; such files are never listed."""
        with _failures():
            for path in self._root.glob(f"{pattern}#*") if self._root is not None else ():
                begun = path.name.rpartition("#")[2].isdigit()
                if begun and path.stat().st_mtime < time.time() - older_than_s:
                    path.unlink(missing_ok=True)

    def _store(self, *, make: bool = False) -> ObjectStore | None:
        with self._lock:
            if self._opened is None and self._root is not None and (make or self._root.is_dir()):
                # What it holds are voices of people: a folder that is made here is for its owner alone.
                self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._opened = LocalStore(self._root, mkdir=True, automatic_cleanup=True)
            return self._opened


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except (BaseError, OSError) as error:
        # Its own text names folders of this machine, and goes to the log alone.
        log.warning("the store of voices failed: %s", str(error).splitlines()[0])
        found = _REASON.search(str(error))
        reason = found.group(1) if found else getattr(error, "strerror", None) or type(error).__name__
        raise StoreFailed(f"the store can't be read or written: {reason}") from error
