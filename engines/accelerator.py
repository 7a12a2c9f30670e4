"""Whether PyTorch can use the accelerator that an engine was given, said so that an operator can act on it."""

import os
import runpy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from engines.contract import EngineUnavailable


def require_device(torch: Any, device: str) -> None:
    """`torch`: the imported module. Raises EngineUnavailable.

    PyTorch decides once, when it is imported, whether there is a GPU; without one every request would succeed, ten
    times too slowly.
    """
    if device.startswith("cuda") and not torch.cuda.is_available():
        build = _named(torch.__version__, torch.version.cuda)
        raise EngineUnavailable(f"{build} sees no GPU; {visible_devices()}")
    if device == "mps" and not torch.backends.mps.is_available():
        raise EngineUnavailable(f"PyTorch {torch.__version__} sees no Apple GPU (MPS)")


def installed_build() -> str:
    """Which PyTorch there is and for which CUDA, without importing it."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return "PyTorch isn't installed"
    try:
        told = runpy.run_path(str(Path(spec.origin).with_name("version.py")))
    except OSError:
        return "PyTorch can't be read"
    return _named(told.get("__version__"), told.get("cuda"))


def visible_devices() -> str:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return "CUDA_VISIBLE_DEVICES " + ("isn't set" if visible is None else f"is {visible!r}")


def _named(version: Any, cuda: Any) -> str:
    return f"PyTorch {version} ({f'built for CUDA {cuda}' if cuda else 'built without CUDA'})"
