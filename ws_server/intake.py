"""What a client has sent for an utterance and nobody has read yet, in order."""

from collections import deque
from dataclasses import dataclass

_MOST_PARTS = 1024
"""So many increments are kept apart; then they are joined, since each costs more than its character."""


@dataclass(frozen=True, slots=True)
class Words:
    text: str
    arrived_s: float


@dataclass(frozen=True, slots=True)
class Flush:
    mark: str | int | None
    arrived_s: float


@dataclass(frozen=True, slots=True)
class End:
    arrived_s: float


@dataclass(slots=True)
class _Increments:
    parts: list[str]
    arrived_s: float
    """Of the first."""
    at_char: int = 0
    """In the first part: what comes before it has been taken."""


class Intake:
    """Pure. Increments that wait together are one text; where they were torn apart means nothing."""

    def __init__(self) -> None:
        self._items: deque[_Increments | Flush | End] = deque()
        self.chars = 0
        """Of text that waits."""

    def __len__(self) -> int:
        return len(self._items)

    def write(self, text: str, now_s: float) -> None:
        if not text:
            return
        self.chars += len(text)
        last = self._items[-1] if self._items else None
        if isinstance(last, _Increments):
            last.parts.append(text)
            if len(last.parts) > _MOST_PARTS:
                last.parts, last.at_char = ["".join(last.parts)[last.at_char :]], 0
        else:
            self._items.append(_Increments([text], now_s))

    def put(self, item: Flush | End) -> None:
        self._items.append(item)

    def take(self, max_chars: int) -> Words | Flush | End:
        """The next thing; of text at most so much."""
        first = self._items[0]
        if not isinstance(first, _Increments):
            self._items.popleft()
            return first
        if len(first.parts) > 1:
            first.parts, first.at_char = ["".join(first.parts)[first.at_char :]], 0
        text = first.parts[0][first.at_char : first.at_char + max_chars]
        first.at_char += len(text)
        self.chars -= len(text)
        if first.at_char == len(first.parts[0]):
            self._items.popleft()
        return Words(text, first.arrived_s)
