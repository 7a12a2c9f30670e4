"""What the talker remembers of every open utterance: keys and values, each at its own length."""

from collections.abc import Sequence

import torch
from torch import Tensor

_FIRST_POSITIONS = 256


class KeyValues:
    """A slot for each utterance; any of them can take the next token together.

    `update` is what the attention layers of transformers ask of a cache; `aim` says for whom the next pass is.
    """

    def __init__(self, *, layers: int, slots: int) -> None:
        self._stored: list[tuple[Tensor, Tensor] | None] = [None] * layers
        self._free = list(range(slots))[::-1]
        self._slots: list[int] = []
        self._starts: list[int] = []
        self._rows: Tensor | None = None
        self._positions: Tensor | None = None

    @property
    def free(self) -> int:
        return len(self._free)

    def take(self) -> int:
        return self._free.pop()

    def give_back(self, slot: int) -> None:
        self._free.append(slot)

    def aim(
        self, slots: Sequence[int], starts: Sequence[int], device: torch.device
    ) -> tuple[Tensor, Tensor | None]:
        """The next pass has one token for each slot, at its start: positions [rows, 1], and who may be looked at."""
        self._slots, self._starts = list(slots), list(starts)
        positions = torch.tensor(self._starts, device=device)
        if len(slots) == 1:
            self._rows = self._positions = None
            return positions[:, None], None
        self._rows, self._positions = torch.tensor(self._slots, device=device), positions
        known = torch.arange(max(starts) + 1, device=device)
        return positions[:, None], (known <= positions[:, None])[:, None, None]

    def aim_at_start(self, slot: int) -> None:
        """The next pass has all the tokens with which an utterance begins."""
        self._slots, self._starts = [slot], [0]
        self._rows = self._positions = None

    def update(self, keys: Tensor, values: Tensor, layer: int, *_: object) -> tuple[Tensor, Tensor]:
        end = max(self._starts) + keys.shape[-2]
        stored = self._room(layer, keys, end)
        first, second = (
            self._write(store, new, end) for store, new in zip(stored, (keys, values), strict=True)
        )
        return first, second

    def _write(self, store: Tensor, new: Tensor, end: int) -> Tensor:
        if self._rows is None:
            slot, start = self._slots[0], self._starts[0]
            store[slot, :, start:end] = new[0]
            return store[slot : slot + 1, :, :end]
        store[self._rows, :, self._positions] = new[:, :, 0]
        return store[:, :, :end].index_select(0, self._rows)

    def _room(self, layer: int, keys: Tensor, end: int) -> tuple[Tensor, Tensor]:
        stored = self._stored[layer]
        slots, positions = (0, 0) if stored is None else (stored[0].shape[0], stored[0].shape[2])
        most = max(self._slots) + 1
        if stored is not None and most <= slots and end <= positions:
            return stored
        _, heads, _, width = keys.shape
        shape = (max(most, slots), heads, _enough(positions, end), width)
        first, second = (keys.new_zeros(shape) for _ in range(2))
        if stored is not None:
            first[:slots, :, :positions] = stored[0]
            second[:slots, :, :positions] = stored[1]
        self._stored[layer] = (first, second)
        return first, second


def _enough(positions: int, end: int) -> int:
    """Twice as many as before until there is room."""
    positions = positions or _FIRST_POSITIONS
    while positions < end:
        positions *= 2
    return positions
