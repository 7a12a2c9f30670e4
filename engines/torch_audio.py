"""Libraries that import torchaudio, where its native part can't be loaded or is of another version than PyTorch.

What they use of it (resampling, filter banks) is written in Python. The native part of a build for CUDA can't be
loaded beside a PyTorch without CUDA; torchaudio can do without it if it is told so before it is imported.
"""

import importlib
import importlib.metadata
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from engines.contract import EngineUnavailable


def with_torchaudio(name: str, *, same_minor: bool = False) -> ModuleType:
    """Import the library `name`, which imports torchaudio.

    `same_minor`: it refuses a torchaudio of another minor version than PyTorch's. Where the native part isn't used,
    that can't do harm, and it is imported all the same. Raises EngineUnavailable.
    """
    native = _import_torchaudio()
    if not same_minor:
        return importlib.import_module(name)
    if native:
        require_same_minor()
        return importlib.import_module(name)
    told = importlib.metadata.version

    def version(distribution_name: str) -> str:
        return told("torch" if distribution_name == "torchaudio" else distribution_name)

    importlib.metadata.version = version
    try:
        return importlib.import_module(name)
    finally:
        importlib.metadata.version = told


def require_same_minor() -> None:
    """Raises EngineUnavailable with a command that helps."""
    torch, torchaudio = (importlib.metadata.version(package) for package in ("torch", "torchaudio"))
    minor = _minor(torch)
    if minor != _minor(torchaudio):
        raise EngineUnavailable(
            f"PyTorch {torch} and torchaudio {torchaudio} don't belong together: install both of one minor version, "
            f"as in pip install 'torchaudio=={minor}.*' (or PyTorch {_minor(torchaudio)})"
        )


def _minor(version: str) -> str:
    return ".".join(version.partition("+")[0].split(".")[:2])


def _import_torchaudio() -> bool:
    """Whether its native part is in use. Raises EngineUnavailable where it is needed and can't be loaded."""
    known = sys.modules.get("torchaudio._extension")
    if known is not None and "torchaudio" in sys.modules:
        return bool(getattr(known, "_IS_TORCHAUDIO_EXT_AVAILABLE", True))
    try:
        importlib.import_module("torchaudio")
    except ImportError as error:
        raise EngineUnavailable(f"torchaudio can't be imported: {error}") from error
    except OSError as error:
        _require_no_cuda(error)
    else:
        return bool(getattr(sys.modules["torchaudio._extension"], "_IS_TORCHAUDIO_EXT_AVAILABLE", True))
    for module in [each for each in sys.modules if each.partition(".")[0] == "torchaudio"]:
        del sys.modules[module]
    sys.modules["torchaudio._extension"] = _without_native_part()
    importlib.import_module("torchaudio")
    return False


def _require_no_cuda(error: OSError) -> None:
    """With CUDA it should have loaded: what is installed doesn't belong together."""
    import torch

    if torch.version.cuda is not None:
        require_same_minor()
        raise EngineUnavailable(f"torchaudio's native part can't be loaded: {error}") from error


def _without_native_part() -> ModuleType:
    module: Any = ModuleType("torchaudio._extension")
    module._IS_TORCHAUDIO_EXT_AVAILABLE = False  # noqa: SLF001 - what its other modules look at
    module._IS_ALIGN_AVAILABLE = False  # noqa: SLF001 - likewise
    module._check_cuda_version = lambda: None  # noqa: SLF001 - likewise
    module.fail_if_no_align = _refuse
    return module  # type: ignore[no-any-return]


def _refuse(function: Callable[..., Any]) -> Callable[..., Any]:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError(f"{function.__name__} needs torchaudio's native part")

    return refuse
