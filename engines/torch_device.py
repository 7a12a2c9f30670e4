"""Where an engine on PyTorch computes and how precisely, and what is given back when it is unloaded."""

import gc
from typing import Any, Literal, get_args

from engines.accelerator import require_device
from engines.contract import OptionError
from engines.option_checks import check_count

Precision = Literal["auto", "bfloat16", "float16", "float32"]
"""`auto`: half of float32 on CUDA, float32 elsewhere."""


def check_precision(value: object, param: str = "dtype") -> None:
    """Of a setting; needs no PyTorch. Raises OptionError."""
    if value not in get_args(Precision):
        raise OptionError(param, f"must be one of {', '.join(get_args(Precision))}")


def check_threads(value: object, param: str = "threads") -> None:
    """Raises OptionError."""
    check_count(param, value, 1, 64)


class TorchDevice:
    """Held by a model from load to unload, by one thread; a second `give_back` does nothing.

    Libraries set the process's number of threads as they are imported: import first, then make this.
    """

    def __init__(self, device: str, *, threads: int | None = None) -> None:
        """`threads`: None: as they are. Raises EngineUnavailable where PyTorch can't use the device."""
        import torch

        require_device(torch, device)
        self.device = torch.device(device)
        self._threads_before: int | None = None
        if threads is not None:
            self._threads_before = torch.get_num_threads()
            torch.set_num_threads(threads)
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)

    def dtype(self, precision: Precision) -> Any:
        """A torch.dtype."""
        import torch

        if precision != "auto":
            return getattr(torch, precision)
        match self.device.type:
            case "cuda":
                return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
            case _:
                return torch.float32

    def peak_bytes(self) -> int | None:
        """What was taken of the device's memory at the most; on an Apple GPU what is taken now; None: a processor."""
        import torch

        match self.device.type:
            case "cuda":
                return int(torch.cuda.max_memory_reserved(self.device))
            case "mps":
                return int(torch.mps.driver_allocated_memory())
            case _:
                return None

    def give_back(self) -> None:
        """What nobody refers to any more: drop the model first."""
        import torch

        gc.collect()
        match self.device.type:
            case "cuda":
                torch.cuda.empty_cache()
            case "mps":
                torch.mps.empty_cache()
            case _:
                pass
        if self._threads_before is not None:
            torch.set_num_threads(self._threads_before)
            self._threads_before = None
