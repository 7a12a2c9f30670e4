"""Recordings as the engines on MLX take them, and prompts as they are stored: safetensors, with the transcript."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engines.contract import CloneMode, EngineError, Samples
from engines.mlx_runtime import resampled
from voices.reference import Reference

_LONGEST_S = 60
_TEXT = "text"
_LENGTH_BYTES = 8
"""A safetensors file begins with the length of its header, which is JSON."""


def continued(reference: Reference, mode: CloneMode) -> Reference | None:
    """What the speech goes on from: the tone, else the recording where its words are to be used. Raises EngineError."""
    found = reference.tone or (reference if mode == "audio+text" else None)
    if found is not None and not found.transcript:
        raise EngineError("to go on from a recording, it has to be known what is said in it")
    return found


def heard(reference: Reference, rate_hz: int, *, longest_s: int = _LONGEST_S, whole: bool = False) -> Samples:
    """Of a long one the beginning, unless its words go with it. Raises EngineError."""
    most_samples = longest_s * reference.sample_rate_hz
    if whole and reference.samples.size > most_samples:
        raise EngineError(f"a recording with its words can have {longest_s} s")
    if not reference.samples.size:
        raise EngineError("the recording is empty")
    return resampled(reference.samples[:most_samples], reference.sample_rate_hz, rate_hz)


def pack(tensors: Mapping[str, NDArray[Any]], text: str | None = None) -> bytes:
    import safetensors.numpy

    whole = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    packed: bytes = safetensors.numpy.save(whole, metadata=None if text is None else {_TEXT: text})
    return packed


def unpack(prompt: bytes, *needed: str) -> tuple[dict[str, NDArray[Any]], str]:
    """The tensors and the transcript, "" where there is none. Raises EngineError."""
    import safetensors
    import safetensors.numpy

    try:
        tensors: dict[str, NDArray[Any]] = safetensors.numpy.load(prompt)
        size_bytes = int.from_bytes(prompt[:_LENGTH_BYTES], "little")
        header = json.loads(prompt[_LENGTH_BYTES : _LENGTH_BYTES + size_bytes])
    except (safetensors.SafetensorError, ValueError) as error:
        raise EngineError(f"the prompt can't be read: {error}") from error
    missing = [name for name in needed if name not in tensors]
    if missing:
        raise EngineError(f"the prompt lacks {', '.join(missing)}")
    return tensors, str(header.get("__metadata__", {}).get(_TEXT, ""))


def tensor_names(file: Path) -> set[str]:
    """Of a safetensors file, without reading its tensors. Raises OSError, ValueError."""
    with file.open("rb") as opened:
        size_bytes = int.from_bytes(opened.read(_LENGTH_BYTES), "little")
        return set(json.loads(opened.read(size_bytes))) - {"__metadata__"}
