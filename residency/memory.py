"""What is loaded on one device: asks its pools how things are, plans, and tells them; for the event loop."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from engines.contract import EngineUnavailable
from residency.planner import MemoryRules, Plan, Policy, Tenant, plan

log = logging.getLogger(__name__)


class Occupied(Protocol):
    """A pool."""

    def tenant(self, unit: str, policy: Policy, *, swap_s: float) -> Tenant: ...

    def direct(
        self, *, load: Iterable[str], leave: Iterable[str], refused: Mapping[str, EngineUnavailable]
    ) -> None: ...

    def ask_for(self, unit: str) -> None: ...


class Memory:
    """The one that lets anything be loaded, so that the device's memory is never promised twice."""

    def __init__(
        self,
        device: str,
        pools: Mapping[str, Occupied],
        policies: Mapping[str, Policy],
        rules: MemoryRules,
        *,
        now: Callable[[], float],
    ) -> None:
        """`pools`: by the names of the units, in the order of their importance."""
        self.device = device
        self.policies = dict(policies)
        self._pools = pools
        self._rules = rules
        self._now = now
        self._dismissed: set[str] = set()
        self._made_room: dict[str, str] = {}
        """Who left, or is leaving, for whom."""

    def policy(self, unit: str) -> Policy:
        return self.policies.get(unit, "UNPINNED")

    def dismiss(self, unit: str) -> None:
        """Unload it as soon as no work is on it."""
        self._dismissed.add(unit)
        self.replan()

    def tenants(self) -> list[Tenant]:
        swap_s = self._rules.swap_s
        return [pool.tenant(unit, self.policy(unit), swap_s=swap_s) for unit, pool in self._pools.items()]

    def replan(self) -> None:
        tenants = self.tenants()
        self._bring_back(tenants)
        self._dismissed -= {tenant.name for tenant in tenants if tenant.state == "unloaded"}
        decided = plan([self._with_orders(tenant) for tenant in tenants], self._rules, self._now())
        self._made_room |= dict(decided.makes_room)
        refused = {unit: EngineUnavailable(self._why_not(unit)) for unit in decided.refuse}
        self._tell(decided, refused)

    def _with_orders(self, tenant: Tenant) -> Tenant:
        return replace(tenant, dismissed=True) if tenant.name in self._dismissed else tenant

    def _tell(self, decided: Plan, refused: Mapping[str, EngineUnavailable]) -> None:
        for pool in dict.fromkeys(self._pools.values()):
            own = {unit for unit, other in self._pools.items() if other is pool}
            pool.direct(
                load=[unit for unit in decided.load if unit in own],
                leave=[unit for unit in decided.leave if unit in own],
                refused={unit: error for unit, error in refused.items() if unit in own},
            )

    def _why_not(self, unit: str) -> str:
        pinned = [name for name in self._pools if name != unit and self.policy(name) == "HARD_PIN"]
        return (
            f"{unit} doesn't fit into the memory of {self.device} beside what is pinned: {', '.join(pinned)}"
        )

    def _bring_back(self, tenants: Iterable[Tenant]) -> None:
        """What made room for one that then couldn't be loaded."""
        known = {tenant.name: tenant for tenant in tenants}
        for former, successor in list(self._made_room.items()):
            if known[successor].state == "ready":
                del self._made_room[former]
            elif known[successor].barred and known[former].state == "unloaded":
                del self._made_room[former]
                log.info("%s is loaded again: %s couldn't be", former, successor)
                self._pools[former].ask_for(former)
