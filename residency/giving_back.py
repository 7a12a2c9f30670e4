"""Memory that nobody uses any more goes back to the system, not just to this process."""

import ctypes
import gc
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

_STATM = Path("/proc/self/statm")


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
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


def resident_bytes() -> int:
    """Of this process; 0 where the system doesn't say."""
    try:
        return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


@cache
def _malloc_trim() -> Any:
    """None where the C library isn't glibc."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        return ctypes.CDLL("libc.so.6").malloc_trim
    except (OSError, AttributeError):
        return None
