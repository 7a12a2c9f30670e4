"""What is in one device's memory: who is loaded, who leaves for whom, and when a pinned one comes back.

Everything that isn't unloaded takes its room: what is being loaded, and what is still being unloaded. A unit with
work on it is never unloaded: when it is to leave, no stream starts on it any more, those that are open are spoken
to their end, and then it goes.

A unit leaves

- for another that is wanted and doesn't fit beside it: at once if nobody needs it; else when its listeners have so
  much audio in hand that they won't notice, or when the other can't wait any longer;
- when it is unpinned and nothing was done with it for a while;
- when an operator says so.

It isn't driven out before it has been there as long as its load took: loading mustn't be all that a device does.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Literal

Policy = Literal["HARD_PIN", "SOFT_PIN", "UNPINNED"]
"""HARD_PIN never leaves. SOFT_PIN leaves under pressure alone, and comes back. UNPINNED leaves when idle, too."""
TenantState = Literal["unloaded", "loading", "ready", "unloading"]

_RANK: dict[Policy, int] = {"UNPINNED": 0, "SOFT_PIN": 1, "HARD_PIN": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRules:
    capacity_bytes: float = inf
    """All units of the device together; infinite: whatever is asked for is loaded."""
    coload: bool = False
    """False: where there is a capacity, one unit at a time whatever its size."""
    swap_s: float = 2.0
    """How long one that is wanted waits for listeners of another."""
    settle_s: float = 5.0
    """The least time in memory."""
    restore_s: float = 30.0
    """So long nothing else was done before a soft-pinned one comes back."""
    idle_s: float = 900.0
    """So long after its last work an unpinned one goes."""

    @property
    def limited(self) -> bool:
        return self.capacity_bytes < inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One unit, as it is now."""

    name: str
    policy: Policy = "UNPINNED"
    state: TenantState = "unloaded"
    size_bytes: int = 0
    """0: not known; it is taken for all there is."""
    busy: bool = False
    """A step or a load is going on, or a stream is open."""
    needed: bool = False
    """Listeners have something to be made by it, or may have in a moment."""
    dry_s: float = inf
    """When the first of its listeners runs dry."""
    wanted_s: float | None = None
    """Since when it is wanted though it isn't there; None: it isn't."""
    due_s: float = inf
    """When it has to be there for those who want it."""
    load_s: float = 0.0
    """What loading it takes."""
    loaded_s: float = -inf
    """When it was."""
    used_s: float = -inf
    """The end of its last work."""
    leaving: bool = False
    """It was told to go."""
    dismissed: bool = False
    """An operator has told it to."""
    barred: bool = False
    """It couldn't be loaded, and isn't tried again yet."""


@dataclass(frozen=True, slots=True)
class Plan:
    load: tuple[str, ...] = ()
    """There is room for them now."""
    leave: tuple[str, ...] = ()
    """No stream starts on them; unloaded when the last open one has ended. Who is no longer here stays."""
    refuse: tuple[str, ...] = ()
    """They can't be loaded as long as what is pinned is pinned."""
    makes_room: tuple[tuple[str, str], ...] = ()
    """(who leaves, for whom)"""


def plan(tenants: Sequence[Tenant], rules: MemoryRules, now_s: float) -> Plan:
    return _Planning(tenants, rules, now_s).plan()


@dataclass(slots=True)
class _Planning:
    tenants: Sequence[Tenant]
    rules: MemoryRules
    now_s: float
    taken: float = 0.0
    """By all that is here or on its way."""
    promised: float = 0.0
    """What will be free when those who leave are gone, less what is meant for those who wait already."""
    load: list[str] = field(default_factory=list)
    leave: list[Tenant] = field(default_factory=list)
    refuse: list[str] = field(default_factory=list)
    makes_room: list[tuple[str, str]] = field(default_factory=list)

    def plan(self) -> Plan:
        here = [tenant for tenant in self.tenants if tenant.state != "unloaded"]
        self.taken = sum(map(self._size, here))
        self.leave = [tenant for tenant in here if self._goes_by_itself(tenant)]
        gone = [tenant for tenant in here if tenant in self.leave or tenant.state == "unloading"]
        self.promised = self._capacity - self.taken + sum(map(self._size, gone))
        for wanted in self._wanted():
            self._place(wanted)
        if not self.load and not self.leave and not any(map(_wants, self.tenants)):
            self._restore()
        return Plan(
            tuple(self.load),
            tuple(tenant.name for tenant in self.leave),
            tuple(self.refuse),
            tuple(self.makes_room),
        )

    @property
    def _capacity(self) -> float:
        return self.rules.capacity_bytes if self._by_size else (1 if self.rules.limited else inf)

    @property
    def _by_size(self) -> bool:
        return self.rules.limited and self.rules.coload

    def _size(self, tenant: Tenant) -> float:
        if self._by_size:
            return tenant.size_bytes or self.rules.capacity_bytes
        return 1 if self.rules.limited else 0

    def _goes_by_itself(self, tenant: Tenant) -> bool:
        if tenant.state != "ready":
            return False
        if tenant.dismissed:
            return True
        idle = not tenant.busy and not tenant.needed and self.now_s - tenant.used_s >= self.rules.idle_s
        return tenant.policy == "UNPINNED" and idle

    def _wanted(self) -> list[Tenant]:
        """Those pinned hard first, then whoever has waited longest."""
        wanted = [one for one in self.tenants if one.state == "unloaded" and not one.barred and _wants(one)]
        return sorted(wanted, key=lambda one: (one.policy != "HARD_PIN", one.wanted_s or 0.0))

    def _place(self, wanted: Tenant) -> None:
        size = self._size(wanted)
        if size > self._capacity - sum(map(self._size, self._pinned_besides(wanted))):
            self.refuse.append(wanted.name)
            return
        if size > self.promised:
            for victim in self._victims(wanted):
                self.leave.append(victim)
                self.makes_room.append((victim.name, wanted.name))
                self.promised += self._size(victim)
        if size <= self.promised and size <= self._capacity - self.taken:
            self.load.append(wanted.name)
            self.taken += size
        # It counts for those that come after it even while it can't be had: else they would take its room for ever.
        self.promised -= size

    def _pinned_besides(self, wanted: Tenant) -> list[Tenant]:
        pinned = [one for one in self.tenants if one.policy == "HARD_PIN" and one is not wanted]
        return [one for one in pinned if one.state != "unloaded" or one.name in self.load]

    def _victims(self, wanted: Tenant) -> list[Tenant]:
        """Just so many that it fits; none if it wouldn't."""
        able = [one for one in self.tenants if one not in self.leave and self._may_leave(one, wanted)]
        able.sort(key=lambda one: (not one.leaving, _RANK[one.policy], one.needed or one.busy, one.used_s))
        victims: list[Tenant] = []
        room = self.promised
        for one in able:
            if room >= self._size(wanted):
                break
            victims.append(one)
            room += self._size(one)
        return victims if room >= self._size(wanted) else []

    def _may_leave(self, tenant: Tenant, wanted: Tenant) -> bool:
        if tenant.state != "ready" or tenant.policy == "HARD_PIN":
            return False
        if tenant.leaving:
            return True
        if self.now_s - tenant.loaded_s < max(self.rules.settle_s, tenant.load_s):
            return False
        if not tenant.needed and not tenant.busy:
            return True
        away_s = wanted.load_s + self.rules.settle_s + tenant.load_s
        return wanted.due_s <= self.now_s or tenant.dry_s >= self.now_s + away_s

    def _restore(self) -> None:
        """The soft-pinned that pressure drove out, once the pressure is gone."""
        for tenant in self.tenants:
            missing = tenant.state == "unloaded" and tenant.policy == "SOFT_PIN"
            if not missing or tenant.barred:
                continue
            others = [one for one in self.tenants if one.state != "unloaded"]
            quiet = [one for one in others if self._quiet(one) and one.policy == "UNPINNED"]
            room = self._capacity - self.taken
            leaving: list[Tenant] = []
            for one in sorted(quiet, key=lambda one: one.used_s):
                if room >= self._size(tenant):
                    break
                leaving.append(one)
                room += self._size(one)
            if room < self._size(tenant) or not all(map(self._quiet, others)):
                continue
            if leaving:
                self.leave += leaving
                self.makes_room += [(one.name, tenant.name) for one in leaving]
            elif self.now_s - tenant.used_s >= self.rules.restore_s:
                self.load.append(tenant.name)
                self.taken += self._size(tenant)

    def _quiet(self, tenant: Tenant) -> bool:
        return (
            not tenant.busy
            and not tenant.needed
            and self.now_s - max(tenant.used_s, tenant.loaded_s) >= self.rules.restore_s
        )


def _wants(tenant: Tenant) -> bool:
    return tenant.state == "unloaded" and (tenant.wanted_s is not None or tenant.policy == "HARD_PIN")


def total_bytes(tenants: Iterable[Tenant]) -> int:
    """What all that is here or on its way takes."""
    return sum(tenant.size_bytes for tenant in tenants if tenant.state != "unloaded")
