"""What each unit of a device costs, and how many it can serve for that."""

from collections.abc import Mapping

from residency.estimates import Estimates
from residency.rules import Rules
from residency.units import Unit

SHORT_CHARS = 40
"""A first piece of a sentence."""


class Costs:
    def __init__(self, units: Mapping[str, Unit], *, capacity: float, rules: Rules) -> None:
        """`capacity`: device seconds in a second that may be promised."""
        self._units = units
        self._capacity = capacity
        self._rules = rules
        self.estimates = {name: Estimates(unit.facts.max_batch) for name, unit in units.items()}

    def cost(self, unit: str, listeners: int) -> float:
        return self.estimates[unit].cost(listeners)

    def max_streams(self, unit: str) -> float:
        if self._rules.max_streams is not None:
            return self._rules.max_streams
        return self.estimates[unit].streams(self._capacity) if self.realtime(unit) else 1

    def realtime(self, unit: str) -> bool:
        """Whether it can serve several: faster than speech, and quick with the shortest sensible piece."""
        estimates, facts = self.estimates[unit], self._units[unit].facts
        quick = facts.step_s is not None or estimates.step_s(SHORT_CHARS) <= self._rules.max_step_s
        return estimates.cost() < 1 and quick
