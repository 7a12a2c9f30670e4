"""Whether PyTorch can use the accelerator that an engine was given, said so that an operator can act on it."""

import os
from typing import Any

from engines.contract import EngineUnavailable


def require_device(torch: Any, device: str) -> None:
    """`torch`: the imported module. Raises EngineUnavailable.

    PyTorch decides once, when it is imported, whether there is a GPU; without one every request would succeed, ten
    times too slowly.
    """
    if device.startswith("cuda") and not torch.cuda.is_available():
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        seen = "isn't set" if visible is None else f"is {visible!r}"
        built = torch.version.cuda
        build = f"built for CUDA {built}" if built else "built without CUDA"
        raise EngineUnavailable(
            f"PyTorch {torch.__version__} ({build}) sees no GPU; CUDA_VISIBLE_DEVICES {seen}"
        )
    if device == "mps" and not torch.backends.mps.is_available():
        raise EngineUnavailable(f"PyTorch {torch.__version__} sees no Apple GPU (MPS)")
