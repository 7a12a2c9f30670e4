"""Qwen3-TTS's own package, to compare with, and checkpoints for it."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engines.contract import Request, Samples, Source
from engines.qwen_model import QwenModel
from tests.engines.tiny_qwen import hummed, make_checkpoint
from tests.voices.recordings import encoded
from voices.reference import Reference

LONG = "The train to the coast leaves at half past nine."


def base_source(folder: Path, **settings: Any) -> Source:
    """With two voices: `anna` is a recording alone, `ben` one with its words."""
    make_checkpoint(folder / "base")
    voices: dict[str, Any] = {}
    for number, name in enumerate(("anna", "ben")):
        (folder / f"{name}.wav").write_bytes(encoded(hummed(number).astype(np.float64)))
        voices[name] = str(folder / f"{name}.wav")
    voices["ben"] = {"audio": voices["ben"], "text": "What was said here took two seconds."}
    return Source(path=str(folder / "base"), settings={"voices": voices, **settings})


def request(text: str = "Good morning, everyone.", voice: str = "anna", **changes: Any) -> Request:
    values: dict[str, Any] = {"seed": 7, "language": "en"}
    return Request(text=text, voice=voice, **(values | changes))


def recording(number: int, rate_hz: int = 24000, **changes: Any) -> Reference:
    values: dict[str, Any] = {"transcript": None, "language": None}
    return Reference(hummed(number, rate_hz), rate_hz, **(values | changes))


def library_of(model: QwenModel) -> Any:
    """The package's Qwen3TTSModel that the engine has loaded."""
    return model._ready.library


def generated(call: Any, *, seed: int = 7, **words: Any) -> Samples:
    """`call`: one of the library's generate_*."""
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of how the library calls transformers
        torch.manual_seed(seed)
        (samples,), rate_hz = call(language="English", **words)
    assert rate_hz == 24000
    return np.asarray(samples, np.float32)
