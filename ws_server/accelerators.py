"""Which devices this machine has, and how much memory they have, without importing what uses them."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Literal

from engines.accelerator import installed_build, visible_devices
from engines.contract import EngineUnavailable

Device = Literal["cpu", "cuda", "mps"]
_NVIDIA = Path("/dev/nvidiactl")
_MPS_PART = 0.7
"""Of the memory that a GPU shares with the processor."""
_ASK_S = 10.0


def present() -> frozenset[str]:
    """The processor, and what else seems to be there; whether an engine can use it shows when it is loaded."""
    found = {"cpu"}
    if _NVIDIA.exists() or shutil.which("nvidia-smi"):
        found.add("cuda")
    if sys.platform == "darwin" and platform.machine() == "arm64":
        found.add("mps")
    return frozenset(found)


def choose(name: str, can_use: Collection[str], asked: str, here: Collection[str]) -> str:
    """The device of an engine: the processor if it is meant for that, too. Raises EngineUnavailable.

    One that is made for accelerators alone isn't put on the processor unless that is what was asked for: it would
    speak, ten times too slowly, and nobody would know why.
    """
    if asked != "auto":
        if asked not in can_use and asked != "cpu":
            raise EngineUnavailable(f"{name} can't use {asked}; it can use {', '.join(sorted(can_use))}")
        return asked
    for device in ("cpu", "cuda", "mps"):
        if device in can_use and device in here:
            return device
    needs = " or ".join(sorted(can_use))
    seen = f" ({installed_build()}; {visible_devices()})" if "cuda" in can_use else ""
    raise EngineUnavailable(
        f"{name} needs {needs}, and there is none here{seen}; "
        f'engines.{name}.device = "cpu" puts it on the processor all the same'
    )


def memory_bytes(device: str) -> int | None:
    """All that the device has; None: it isn't known."""
    if device == "cuda":
        return _cuda_bytes()
    if device == "mps":
        return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * _MPS_PART)
    return None


def _cuda_bytes() -> int | None:
    query = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(query, capture_output=True, text=True, timeout=_ASK_S, check=True)  # noqa: S603 - fixed
        return int(told.stdout.splitlines()[0]) << 20
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None
