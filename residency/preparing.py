"""Which uploaded voices the models of a device know already, what others will take, and which to make when idle."""

from collections import OrderedDict, deque
from collections.abc import Container

from residency.work import Prepare
from voices.reference import Clone

UNKNOWN_S = 1.0
"""What a prompt takes, before any was made."""
FADES = 0.9
MOST_KNOWN = 10_000
MOST_WISHES = 64


class Preparing:
    """Pure. A voice counts as known from when its prompt was made or found until the model goes."""

    def __init__(self) -> None:
        self._known: dict[str, OrderedDict[Clone, None]] = {}
        self._takes_s: dict[str, float] = {}
        self._wishes: deque[Prepare] = deque(maxlen=MOST_WISHES)

    def expected_s(self, unit: str, clone: Clone | None) -> float:
        if clone is None or clone in self._known.get(unit, ()):
            return 0.0
        return self._takes_s.get(unit, UNKNOWN_S)

    def wish(self, unit: str, clone: Clone) -> None:
        """Have it made when nobody needs the device; of too many the oldest are forgotten."""
        wish = Prepare(unit, clone)
        if wish not in self._wishes and self.expected_s(unit, clone):
            self._wishes.append(wish)

    def due(self, loaded: Container[str], spare_s: float) -> Prepare | None:
        """What can be made now, within `spare_s`."""
        for wish in self._wishes:
            if wish.unit in loaded and self.expected_s(wish.unit, wish.clone) <= spare_s:
                self._wishes.remove(wish)
                return wish
        return None

    def observe(self, unit: str, clone: Clone, took_s: float) -> None:
        known = self._known.setdefault(unit, OrderedDict())
        if clone not in known:
            # The longest of late: one that was found on disk says nothing about those that aren't.
            self._takes_s[unit] = max(took_s, FADES * self._takes_s.get(unit, 0.0))
        known[clone] = None
        known.move_to_end(clone)
        if len(known) > MOST_KNOWN:
            known.popitem(last=False)
        self._wishes = deque((wish for wish in self._wishes if wish != Prepare(unit, clone)), MOST_WISHES)

    def forget(self, unit: str) -> None:
        """Its model is gone; what its prompts take is remembered."""
        self._known.pop(unit, None)
        self._wishes = deque((wish for wish in self._wishes if wish.unit != unit), MOST_WISHES)
