"""What a checkpoint is known by: the content of its files, wherever they lie."""

import hashlib
import json
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from engines.recordings import RecordedVoice

_WHOLE_BYTES = 64 << 20
_SAMPLE_BYTES = 1 << 20
_SAMPLES = 64

_known: dict[tuple[Path, int, int], str] = {}


def file_digest(file: Path) -> str:
    """Read again only when the file has changed. Raises OSError.

    Of a file of many gigabytes its size, its ends and what is at many places between them: training changes all of
    it, and nobody should wait for the rest at every start.
    """
    state = file.stat()
    key = (file.resolve(), state.st_size, state.st_mtime_ns)
    if key not in _known:
        _known[key] = _read(file, state.st_size)
    return _known[key]


def folder_digest(folder: Path, *, suffixes: Collection[str]) -> str:
    """Of the files with such suffixes, at any depth, by their names in it. Raises OSError."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.suffix in suffixes and file.is_file():
            digest.update(f"{file.relative_to(folder).as_posix()} {file_digest(file)}\n".encode())
    return digest.hexdigest()


def sound_digest(
    folder: Path, *, suffixes: Collection[str], shaping: Sequence[Any], voices: Sequence[RecordedVoice] = ()
) -> str:
    """Of all that shapes the sound: a checkpoint's files, `shaping` (versions and settings, as JSON can say them), and
    the operator's recordings. Raises OSError.
    """
    digest = hashlib.sha256(json.dumps(shaping).encode())
    digest.update(folder_digest(folder, suffixes=suffixes).encode())
    for voice in voices:
        digest.update(f"{voice.name} {file_digest(voice.audio)} {voice.text}".encode())
    return digest.hexdigest()[:32]


def _read(file: Path, size_bytes: int) -> str:
    with file.open("rb") as opened:
        if size_bytes <= _WHOLE_BYTES:
            return hashlib.sha256(opened.read()).hexdigest()
        digest = hashlib.sha256(str(size_bytes).encode())
        for number in range(_SAMPLES):
            opened.seek((size_bytes - _SAMPLE_BYTES) * number // (_SAMPLES - 1), os.SEEK_SET)
            digest.update(opened.read(_SAMPLE_BYTES))
        return digest.hexdigest()
