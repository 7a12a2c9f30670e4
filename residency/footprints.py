"""What units take of memory: what is declared, and the most that was ever measured, remembered over restarts."""

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Lock

from residency.units import Unit

log = logging.getLogger(__name__)

ROUND_BYTES = 100_000_000
"""Up to the next of these: a guess that is a little too low runs out of memory in the middle of somebody's speech."""


def rounded_up(size_bytes: float) -> int:
    return -(-int(size_bytes) // ROUND_BYTES) * ROUND_BYTES


def signature_of(unit: Unit) -> str:
    """Whatever changes what it takes: other code, other weights, another device."""
    info = unit.engine.info
    return " ".join(
        (unit.name, info.version, unit.facts.checkpoint, unit.device, "hosted" if unit.hosted else "inline")
    )


class Footprints:
    """Used from any thread; may write a file. One that can't be read or written is told of, and does no harm."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._lock = Lock()
        self._measured: dict[str, int] = {} if file is None else _read(file)
        self._memory: dict[str, Mapping[str, int]] = {}
        self._signatures: dict[tuple[str, str], str] = {}
        """Reading a version may read a file, and `of` is asked often."""

    def of(self, unit: Unit) -> int:
        """For the mode that takes most; 0: nothing is known."""
        declared = max(unit.facts.footprint_bytes.values(), default=0)
        measured = self._measured.get(self._signature(unit), 0)
        return rounded_up(max(declared, measured))

    def memory_of(self, unit: Unit) -> Mapping[str, int] | None:
        """What the runtime of a loaded model said last; None: it can't tell."""
        return self._memory.get(unit.name)

    def measured(self, unit: Unit, peak_bytes: int, memory: Mapping[str, int] | None = None) -> None:
        """Of this loading; the most of all counts, and the `memory` of this moment."""
        signature = self._signature(unit)
        with self._lock:
            if memory is not None:
                self._memory[unit.name] = memory
            if peak_bytes <= self._measured.get(signature, 0):
                return
            self._measured[signature] = peak_bytes
            if self._file is not None:
                _write(self._file, self._measured)

    def _signature(self, unit: Unit) -> str:
        key = unit.name, unit.facts.checkpoint
        if key not in self._signatures:
            self._signatures[key] = signature_of(unit)
        return self._signatures[key]


def _read(file: Path) -> dict[str, int]:
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        return {str(name): int(size_bytes) for name, size_bytes in stored.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        log.warning("measured footprints in %s can't be read, and are measured again: %s", file, error)
        return {}


def _write(file: Path, measured: Mapping[str, int]) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile("w", dir=file.parent, delete=False, encoding="utf-8") as draft:
            json.dump(measured, draft, indent=1, sort_keys=True)
        os.replace(draft.name, file)  # noqa: PTH105 - over the one that is there, at once
    except OSError as error:
        log.warning("measured footprints can't be kept in %s: %s", file, error)
