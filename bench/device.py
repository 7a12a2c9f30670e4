"""What a model computes on: whether its work is done, and how much memory is taken there and in this process."""

import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from time import perf_counter

from engines.accelerator import require_device
from residency.giving_back import resident_bytes


@dataclass(frozen=True, slots=True)
class Taken:
    process_bytes: int
    """Resident; 0 where the system doesn't say."""
    allocated_bytes: int = 0
    """Of the accelerator, by what is alive; 0 without one."""
    reserved_bytes: int = 0
    """Of the accelerator, what PyTorch keeps for itself included."""


class Device:
    """Looks at the memory whenever it is asked, and remembers the most that it saw."""

    def __init__(self, kind: str) -> None:
        """`kind`: cpu, cuda or mps. Raises EngineUnavailable where PyTorch can't use it."""
        self.kind = kind
        if self.accelerator:
            import torch

            require_device(torch, kind)
        self._most_process_bytes = 0

    @property
    def accelerator(self) -> bool:
        return self.kind != "cpu"

    @property
    def label(self) -> str:
        if not self.accelerator:
            return "the CPU"
        import torch

        name = torch.cuda.get_device_name() if self.kind == "cuda" else "an Apple GPU"
        return f"{name} ({self.kind}, PyTorch {torch.__version__})"

    def now_s(self) -> float:
        """When all that the device was told to do is done."""
        if self.accelerator:
            import torch

            (torch.cuda if self.kind == "cuda" else torch.mps).synchronize()
        return perf_counter()

    def look(self) -> Taken:
        process_bytes = resident_bytes()
        self._most_process_bytes = max(self._most_process_bytes, process_bytes)
        if not self.accelerator:
            return Taken(process_bytes)
        import torch

        if self.kind == "cuda":
            return Taken(process_bytes, torch.cuda.memory_allocated(), torch.cuda.memory_reserved())
        return Taken(process_bytes, torch.mps.current_allocated_memory(), torch.mps.driver_allocated_memory())

    def most(self) -> Taken:
        """The process's of all looks; the accelerator's by its own count, on an Apple GPU what is taken now."""
        now = self.look()
        if self.kind != "cuda":
            return Taken(self._most_process_bytes, now.allocated_bytes, now.reserved_bytes)
        import torch

        return Taken(
            self._most_process_bytes, torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
        )


def chosen(asked: str | None, devices: Iterable[str]) -> str:
    """`asked`, else CUDA where an engine has it and PyTorch sees it, else the CPU."""
    if asked is not None:
        return asked
    if "cuda" in devices and importlib.util.find_spec("torch") is not None:
        import torch

        if torch.cuda.is_available():
            return "cuda"
    return "cpu"
