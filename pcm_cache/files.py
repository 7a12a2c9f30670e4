"""Entries in a folder. Every function blocks, so they are for threads; several processes may share the folder."""

import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pcm_cache.clip import Clip
from pcm_cache.entry import BadEntry, decode

SUFFIX = ".clip"
_TEMP = ".tmp"
_ABANDONED_S = 60.0
"""A write takes milliseconds: a temporary file older than this has lost its writer."""
_DIGEST_CHARS = 40


@dataclass(frozen=True, slots=True)
class Found:
    digest: str
    bytes: int
    used_s: float
    """Wall clock."""


class Folder:
    """One file an entry, named by its digest, its time of change the time of its last use.

    A file appears whole under its name or not at all. Nothing is forced to the platter: after a power cut a file may
    be short or wrong, which its header tells, and a lost one is only a miss.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def prepare(self) -> None:
        """Make the folder, for its owner alone. Raises OSError."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def scan(self) -> list[Found]:
        """Every entry, least recently used first; what a killed writer left behind is removed. Raises OSError."""
        found = []
        now_s = time.time()
        for item in self._files():
            try:
                stat = item.stat(follow_symlinks=False)
                if item.name.endswith(_TEMP):
                    if now_s - stat.st_mtime > _ABANDONED_S:
                        Path(item.path).unlink()
                elif _is_digest(digest := item.name.removesuffix(SUFFIX)) and item.name.endswith(SUFFIX):
                    found.append(Found(digest, stat.st_size, stat.st_mtime))
            except FileNotFoundError:
                continue
        return sorted(found, key=lambda one: one.used_s)

    def read(self, digest: str) -> Clip | None:
        """None: there is none. Raises BadEntry for one that isn't whole (it is gone then), OSError."""
        path = self._path(digest)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            return decode(digest, data)
        except BadEntry:
            path.unlink(missing_ok=True)
            raise

    def write(self, digest: str, data: bytes) -> int:
        """The bytes that now lie there; an entry that was there first stays. Raises OSError, and leaves nothing."""
        path = self._path(digest)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        temp = path.parent / f"{secrets.token_hex(8)}{_TEMP}"
        try:
            with open(temp, "xb", buffering=0, opener=_private) as file:
                view = memoryview(data)
                while view:
                    view = view[file.write(view) :]
            return _settle(temp, path)
        finally:
            temp.unlink(missing_ok=True)

    def touch(self, digest: str) -> None:
        """It was used now. Raises OSError."""
        os.utime(self._path(digest))

    def remove(self, digest: str) -> None:
        """Idempotent. Raises OSError."""
        self._path(digest).unlink(missing_ok=True)

    def _path(self, digest: str) -> Path:
        return self.path / digest[:2] / f"{digest}{SUFFIX}"

    def _files(self) -> Iterator[os.DirEntry[str]]:
        with os.scandir(self.path) as folders:
            for folder in folders:
                if folder.is_dir(follow_symlinks=False):
                    with os.scandir(folder.path) as files:
                        yield from files


def _settle(temp: Path, path: Path) -> int:
    try:
        path.hardlink_to(temp)
    except FileExistsError:
        pass
    except OSError:  # a file system without hard links
        temp.replace(path)
    return path.stat().st_size


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _is_digest(name: str) -> bool:
    return len(name) == _DIGEST_CHARS and all(letter in "0123456789abcdef" for letter in name)
