"""Memory that nobody uses any more goes back to the system, not just to this process."""

import ctypes
import gc
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

_STATM = Path("/proc/self/statm")
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_OWN_MAPPING_BYTES = 1 << 20
_TRIM_BYTES = 16 << 20


def keep_large_blocks_apart() -> None:
    """From now on each is a mapping of its own, which goes back to the system when it is freed.

    glibc's own threshold rises with what is freed, up to 32 MB: after the first unload the next model's weights
    lie in the heap among what stays, and their pages with them.
    """
    libc = _libc()
    if libc is not None:
        libc.mallopt(_M_MMAP_THRESHOLD, _OWN_MAPPING_BYTES)
        # Setting the one fixes the other at 128 kB, and the heap's end would go back and forth.
        libc.mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES)


def give_back() -> None:
    """Slow, tens of milliseconds: for a lane, after a load or an unload.

    What the process has frozen for the collector's sake is looked through, too: a model may be among it.
    """
    frozen = gc.get_freeze_count() > 0
    if frozen:
        gc.unfreeze()
    gc.collect()
    if frozen:
        gc.freeze()
    _trim()


def tidy() -> None:
    """After speech, when nobody waits: some milliseconds. What is loaded isn't looked through."""
    gc.collect()
    _trim()


def resident_bytes() -> int:
    """Of this process; 0 where the system doesn't say."""
    try:
        return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _trim() -> None:
    libc = _libc()
    if libc is not None:
        libc.malloc_trim(0)


@cache
def _libc() -> Any:
    """None where it isn't glibc."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        libc = ctypes.CDLL("libc.so.6")
    except OSError:
        return None
    return libc if hasattr(libc, "malloc_trim") and hasattr(libc, "mallopt") else None
