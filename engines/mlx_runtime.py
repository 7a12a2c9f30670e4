"""MLX as the lane of an engine uses it: where it can run, its memory, its random state, numbers on the way out."""

import contextlib
import gc
import io
import logging
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from engines.contract import EngineUnavailable, Samples
from engines.installed import installed_version
from voices.reference import Reference

log = logging.getLogger(__name__)

DEVICES = frozenset({"mps"})
"""The processor only where it is asked for: it is for tests."""
Array = Any
"""An mlx.core.array; never leaves its thread."""


def unsupported() -> str | None:
    """Why MLX can't be installed on this machine; None: it can."""
    if sys.platform.startswith("linux") or (sys.platform == "darwin" and platform.machine() == "arm64"):
        return None
    return f"MLX runs on Apple Silicon and on Linux, not on {sys.platform} {platform.machine()}"


def installed_versions() -> str:
    """Both libraries shape the sound; "" while one is missing."""
    both = installed_version("mlx-audio"), installed_version("mlx")
    return " mlx ".join(both) if all(both) else ""


def load_library(name: str, folder: Path) -> Any:
    """A checkpoint through mlx-audio's own code; asks no hub. Raises EngineUnavailable.

    What the library prints is logged: it tells of some failures in no other way.
    """
    said = io.StringIO()
    try:
        from mlx_audio.tts.utils import load_model

        with contextlib.redirect_stdout(said):
            return load_model(folder)
    except ImportError as error:
        raise EngineUnavailable(f"{name} needs what isn't installed: {_first_line(error)}") from error
    except Exception as error:
        raise EngineUnavailable(f"{name} couldn't be loaded: {_first_line(error)}") from error
    finally:
        for line in said.getvalue().splitlines():
            log.log(logging.WARNING if "warning" in line.lower() else logging.DEBUG, "%s: %s", name, line)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or repr(error)


class Runtime:
    """Held by a model from load to unload, by one thread.

    MLX keeps what is freed for later: dropping a model alone gives nothing back to the system.
    """

    def __init__(self, device: str, *, cache_limit_bytes: int) -> None:
        """Raises EngineUnavailable."""
        try:
            import mlx.core as mx
        except ImportError as error:
            raise EngineUnavailable(f"MLX can't be imported (on Linux it needs mlx[cpu]): {error}") from error
        if device == "mps" and not mx.metal.is_available():
            raise EngineUnavailable("MLX sees no Apple GPU (Metal)")
        mx.set_default_device(mx.gpu if device == "mps" else mx.cpu)
        mx.set_cache_limit(cache_limit_bytes)
        mx.reset_peak_memory()

    def settle(self) -> None:
        """After an utterance, not after each chunk: what is kept between chunks makes the next one faster."""
        import mlx.core as mx

        mx.clear_cache()

    def give_back(self) -> None:
        """What nobody refers to any more: drop the model first. Modules refer to each other in circles."""
        import mlx.core as mx

        frozen = gc.get_freeze_count() > 0
        if frozen:
            gc.unfreeze()
        gc.collect()
        if frozen:
            gc.freeze()
        _forget_tables()
        mx.clear_cache()

    def memory(self) -> Mapping[str, int]:
        """Of the whole process: in use, kept for later, the most that was in use."""
        import mlx.core as mx

        return {
            "active_bytes": mx.get_active_memory(),
            "cache_bytes": mx.get_cache_memory(),
            "peak_bytes": mx.get_peak_memory(),
        }


def _forget_tables() -> None:
    """Windows and filters that the library has computed for recordings, and keeps."""
    from mlx_audio import dsp

    for value in vars(dsp).values():
        if hasattr(value, "cache_clear"):
            value.cache_clear()


class RandomState:
    """Inside a `with`, whatever this thread draws comes from here; its state is as before afterwards.

    MLX has one state a thread. Its key is two halves of a seed, and seeding is the only way to set it.
    """

    def __init__(self, seed: int) -> None:
        self._ours = seed
        self._theirs = 0

    def __enter__(self) -> None:
        self._theirs = self._swap(self._ours)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ours = self._swap(self._theirs)

    def _swap(self, seed: int) -> int:
        import mlx.core as mx

        high, low = mx.random.state[0].tolist()
        mx.random.seed(seed)
        return int(high) << 32 | int(low)


def numbers(audio: Array) -> Samples:
    """Computes it, here, and copies it; numpy knows no bfloat16."""
    import mlx.core as mx

    samples: Samples = np.array(audio.astype(mx.float32)).reshape(-1)
    return samples


def array(values: np.ndarray[Any, Any]) -> Array:
    import mlx.core as mx

    return mx.array(values)


def resampled(samples: Samples, from_hz: int, to_hz: int) -> Samples:
    if from_hz != to_hz:
        from mlx_audio.utils import resample_audio

        samples = resample_audio(samples, from_hz, to_hz)
    return np.ascontiguousarray(samples, np.float32)


def recording(file: Path, transcript: str | None = None) -> Reference:
    """WAV, FLAC, MP3 or Vorbis. Raises what the library does."""
    from mlx_audio.audio_io import read

    samples, rate_hz = read(file, dtype="float32", always_2d=True)
    return Reference(samples.mean(axis=1), rate_hz, transcript, None)
