"""A bounded number of bytes under keys, least recently used first to go: the arithmetic of both tiers."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Place(Generic[T]):
    item: T
    bytes: int


class Shelf(Generic[T]):
    """Pure. Its total is always the sum of what is on it."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._places: OrderedDict[str, _Place[T]] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def get(self, key: str) -> T | None:
        """Makes it the most recently used."""
        place = self._places.get(key)
        if place is None:
            return None
        self._places.move_to_end(key)
        return place.item

    def put(self, key: str, item: T, item_bytes: int) -> list[str]:
        """The keys that had to go: the item's own if it is larger than the shelf. What is there already stays."""
        if key in self._places:
            self._places.move_to_end(key)
            return []
        if item_bytes > self._max_bytes:
            return [key]
        self._places[key] = _Place(item, item_bytes)
        self.bytes += item_bytes
        gone = []
        while self.bytes > self._max_bytes:
            oldest, place = self._places.popitem(last=False)
            self.bytes -= place.bytes
            gone.append(oldest)
        return gone

    def remove(self, key: str) -> bool:
        place = self._places.pop(key, None)
        if place is None:
            return False
        self.bytes -= place.bytes
        return True
