"""A random state for each stream, in front of libraries that draw from PyTorch's global one."""

from types import TracebackType

import torch


class RandomState:
    """Inside a `with`, whatever this thread draws comes from here; the global state is as before afterwards.

    No other thread may draw meanwhile: the global state is the process's.
    """

    def __init__(self, seed: int, device: "torch.device | str" = "cpu") -> None:
        self._device = torch.device(device)
        self._ours = [torch.Generator(place).manual_seed(seed).get_state() for place in self._places]
        self._theirs: list[torch.Tensor] = []

    @property
    def _places(self) -> list[torch.device]:
        cpu = torch.device("cpu")
        return [cpu] if self._device.type == "cpu" else [cpu, self._device]

    def __enter__(self) -> None:
        self._theirs = self._swap(self._ours)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ours = self._swap(self._theirs)

    def _swap(self, states: list[torch.Tensor]) -> list[torch.Tensor]:
        before = [_get(place) for place in self._places]
        for place, state in zip(self._places, states, strict=True):
            _set(place, state)
        return before


def _get(device: torch.device) -> torch.Tensor:
    match device.type:
        case "cpu":
            return torch.get_rng_state()
        case "mps":
            return torch.mps.get_rng_state()
        case _:
            return torch.cuda.get_rng_state(device)


def _set(device: torch.device, state: torch.Tensor) -> None:
    match device.type:
        case "cpu":
            torch.set_rng_state(state)
        case "mps":
            torch.mps.set_rng_state(state)
        case _:
            torch.cuda.set_rng_state(state, device)
