"""The planner's rules one by one, and its promises over random worlds."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from residency.planner import MemoryRules, Plan, Policy, Tenant, plan, total_bytes

GB = 10**9
ONE = MemoryRules(capacity_bytes=24 * GB, swap_s=2, settle_s=5, restore_s=30, idle_s=900)
"""One at a time."""
SEVERAL = replace(ONE, coload=True)
NOW_S = 1000.0


def here(name: str, **changes: Any) -> Tenant:
    """Loaded a good while ago, nothing to do for a minute."""
    values: dict[str, Any] = {
        "state": "ready",
        "size_bytes": 8 * GB,
        "loaded_s": 500.0,
        "used_s": 940.0,
        "load_s": 4.0,
    }
    return Tenant(name=name, **(values | changes))


def gone(name: str, **changes: Any) -> Tenant:
    return Tenant(name=name, **({"size_bytes": 8 * GB, "load_s": 4.0} | changes))


def wanted(name: str, **changes: Any) -> Tenant:
    return gone(name, **({"wanted_s": NOW_S, "due_s": NOW_S + 2} | changes))


def decide(*tenants: Tenant, rules: MemoryRules = ONE, now_s: float = NOW_S) -> Plan:
    return plan(tenants, rules, now_s)


def test_without_a_capacity_all_that_is_asked_for_is_loaded() -> None:
    result = decide(here("a"), wanted("b"), wanted("c"), gone("d"), rules=MemoryRules())
    assert result == Plan(load=("b", "c"))


def test_one_at_a_time_unless_co_loading_is_switched_on() -> None:
    assert decide(here("a"), wanted("b")).load == ()
    assert decide(here("a"), wanted("b")).leave == ("a",)
    assert decide(here("a"), wanted("b"), rules=SEVERAL) == Plan(load=("b",))


def test_with_co_loading_just_so_many_leave_that_it_fits_the_least_recently_used_first() -> None:
    result = decide(
        here("a", used_s=900), here("b", used_s=800), here("c", used_s=910), wanted("d"), rules=SEVERAL
    )
    assert result.leave == ("b",)
    assert result.makes_room == (("b", "d"),)


def test_a_unit_whose_size_is_unknown_is_loaded_alone() -> None:
    assert decide(here("a"), wanted("b", size_bytes=0), rules=SEVERAL).leave == ("a",)


def test_what_is_still_being_unloaded_takes_its_room() -> None:
    assert decide(here("a", state="unloading"), wanted("b")) == Plan()


def test_one_with_listeners_stays_until_the_others_wait_is_over() -> None:
    busy = here("a", needed=True, dry_s=NOW_S + 1)
    waiting = wanted("b", wanted_s=NOW_S, due_s=NOW_S + 2)
    assert decide(busy, waiting, now_s=NOW_S + 1.9).leave == ()
    assert decide(busy, waiting, now_s=NOW_S + 2).leave == ("a",)


def test_one_whose_listeners_have_audio_for_the_whole_swap_leaves_at_once() -> None:
    there_and_back_s = 4 + 5 + 4
    assert decide(here("a", needed=True, dry_s=NOW_S + there_and_back_s), wanted("b")).leave == ("a",)
    assert decide(here("a", needed=True, dry_s=NOW_S + there_and_back_s - 0.1), wanted("b")).leave == ()


def test_one_is_not_driven_out_before_it_was_there_as_long_as_its_load_took() -> None:
    late = wanted("b", due_s=0.0)
    assert decide(here("a", loaded_s=NOW_S - 4.9), late).leave == ()
    assert decide(here("a", loaded_s=NOW_S - 5), late).leave == ("a",)
    assert decide(here("a", loaded_s=NOW_S - 39, load_s=40), late).leave == ()
    assert decide(here("a", loaded_s=NOW_S - 40, load_s=40), late).leave == ("a",)


def test_one_that_was_told_to_leave_keeps_leaving_while_it_is_wanted_gone() -> None:
    leaving = here("a", leaving=True, busy=True, needed=True, dry_s=NOW_S + 0.1)
    assert decide(leaving, wanted("b")).leave == ("a",)
    assert decide(leaving, gone("b")).leave == (), "all who waited for the other have left"


def test_a_hard_pin_never_leaves_and_what_it_keeps_out_is_refused() -> None:
    result = decide(here("a", policy="HARD_PIN"), wanted("b", due_s=0.0))
    assert result == Plan(refuse=("b",))
    assert decide(here("a", policy="HARD_PIN", used_s=0.0)).leave == ()


def test_a_hard_pin_is_loaded_without_being_asked_for_and_drives_out_others() -> None:
    assert decide(gone("a", policy="HARD_PIN")) == Plan(load=("a",))
    assert decide(gone("a", policy="HARD_PIN"), here("b")).leave == ("b",)
    assert decide(gone("a", policy="HARD_PIN", barred=True)) == Plan()


def test_of_two_hard_pins_that_do_not_fit_together_the_first_is_loaded() -> None:
    result = decide(gone("a", policy="HARD_PIN"), gone("b", policy="HARD_PIN"))
    assert result == Plan(load=("a",), refuse=("b",))


def test_a_soft_pin_leaves_under_pressure_after_the_unpinned() -> None:
    small = {"size_bytes": 8 * GB}
    result = decide(
        here("a", policy="SOFT_PIN", used_s=0, **small),
        here("b", **small),
        here("c", policy="HARD_PIN", **small),
        wanted("d", **small),
        rules=SEVERAL,
    )
    assert result.leave == ("b",)
    assert decide(here("a", policy="SOFT_PIN"), wanted("b")).leave == ("a",)


def test_a_soft_pin_comes_back_when_nothing_else_was_done_for_a_while() -> None:
    driven_out = gone("a", policy="SOFT_PIN", used_s=900)
    assert decide(driven_out, here("b", used_s=NOW_S - 29)).leave == ()
    assert decide(driven_out, here("b", used_s=NOW_S - 30)).leave == ("b",)
    assert decide(driven_out, here("b", used_s=NOW_S - 30, needed=True)).leave == ()
    assert decide(driven_out, here("b", used_s=NOW_S - 30, policy="HARD_PIN")).leave == ()
    assert decide(driven_out).load == ("a",)
    assert decide(replace(driven_out, used_s=NOW_S - 29)).load == ()


def test_only_the_unpinned_leave_when_idle_counted_from_the_end_of_work() -> None:
    assert decide(here("a", used_s=NOW_S - 899, loaded_s=0)).leave == ()
    assert decide(here("a", used_s=NOW_S - 900, loaded_s=0)).leave == ("a",)
    assert decide(here("a", used_s=NOW_S - 900, busy=True)).leave == ()
    assert decide(here("a", used_s=NOW_S - 900, needed=True)).leave == ()
    assert decide(here("a", used_s=0, policy="SOFT_PIN")).leave == ()
    assert decide(here("a", used_s=0, policy="HARD_PIN")).leave == ()


def test_a_big_one_that_waits_longest_is_not_passed_by_for_ever_by_small_ones() -> None:
    result = decide(
        here("a", size_bytes=20 * GB, needed=True, dry_s=NOW_S),
        wanted("big", size_bytes=20 * GB, wanted_s=NOW_S - 1),
        wanted("small", size_bytes=3 * GB, wanted_s=NOW_S),
        rules=SEVERAL,
    )
    assert result.load == ()


def test_a_small_one_that_fits_beside_those_to_come_does_not_wait_for_them() -> None:
    result = decide(
        here("a", size_bytes=16 * GB),
        wanted("big", size_bytes=20 * GB, wanted_s=NOW_S - 1),
        wanted("small", size_bytes=3 * GB, wanted_s=NOW_S),
        rules=SEVERAL,
    )
    assert result == Plan(load=("small",), leave=("a",), makes_room=(("a", "big"),))


def test_one_that_could_not_be_loaded_drives_nobody_out() -> None:
    assert decide(here("a"), wanted("b", barred=True)) == Plan()


# Over random worlds ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Visit:
    """Listeners that want a unit from a moment on, and its work for them once it is there."""

    unit: int
    at_s: float
    work_s: float


@dataclass(frozen=True)
class Scene:
    sizes_gb: tuple[int, ...]
    policies: tuple[Policy, ...]
    loads_s: tuple[float, ...]
    visits: tuple[Visit, ...]
    coload: bool


@st.composite
def scenes(draw: st.DrawFn, *, endless: bool = False) -> Scene:
    count = draw(st.integers(2, 4))
    policies: list[Policy] = ["UNPINNED", "UNPINNED", "SOFT_PIN", "HARD_PIN"]
    chosen = [draw(st.sampled_from(policies)) for _ in range(count)]
    pins = [index for index, policy in enumerate(chosen) if policy == "HARD_PIN"]
    for index in pins[1:]:
        chosen[index] = "SOFT_PIN"
    works_s = st.floats(0.1, 8) | (st.just(ENDLESS_S) if endless else st.nothing())
    visit = st.builds(Visit, st.integers(0, count - 1), st.floats(0, 60), works_s)
    return Scene(
        tuple(draw(st.integers(1, 12)) for _ in range(count)),
        tuple(chosen),
        tuple(draw(st.floats(0.5, 8)) for _ in range(count)),
        tuple(draw(st.lists(visit, max_size=6))),
        draw(st.booleans()),
    )


ENDLESS_S = 1e9
"""Listeners that never stop asking for more."""


class Machine:
    """Does what is planned, half a second at a time."""

    STEP_S = 0.5
    UNLOAD_S = 0.5

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.rules = replace(ONE, coload=scene.coload, idle_s=60.0)
        self.now_s = 0.0
        self.tenants = [
            Tenant(name=str(index), policy=policy, size_bytes=size * GB, load_s=load_s)
            for index, (size, policy, load_s) in enumerate(
                zip(scene.sizes_gb, scene.policies, scene.loads_s, strict=True)
            )
        ]
        self.until_s: dict[str, float] = {}
        self.left_s = {visit: visit.work_s for visit in scene.visits}
        self.waits_s = dict.fromkeys(scene.visits, 0.0)
        """At this moment, without a break."""
        self.unheard_s = dict.fromkeys(scene.visits, 0.0)
        """At the longest."""
        self.loads: list[tuple[str, float]] = []

    def run(self, until_s: float) -> None:
        while self.now_s < until_s:
            self._look()
            self._obey(plan(self.tenants, self.rules, self.now_s))
            self._work()
            self.now_s += self.STEP_S

    def _visits(self, name: str) -> list[Visit]:
        return [
            visit
            for visit, left_s in self.left_s.items()
            if str(visit.unit) == name and visit.at_s <= self.now_s and left_s > 0
        ]

    def _look(self) -> None:
        self.tenants = [self._seen(self._moved(tenant)) for tenant in self.tenants]

    def _moved(self, tenant: Tenant) -> Tenant:
        if self.until_s.get(tenant.name, inf) > self.now_s:
            return tenant
        if tenant.state == "loading":
            return replace(tenant, state="ready", loaded_s=self.now_s, used_s=self.now_s)
        return replace(tenant, state="unloaded") if tenant.state == "unloading" else tenant

    def _seen(self, tenant: Tenant) -> Tenant:
        visits = self._visits(tenant.name)
        since_s = min((self.now_s - self.waits_s[visit] for visit in visits), default=None)
        return replace(
            tenant,
            needed=bool(visits),
            dry_s=self.now_s if visits else inf,
            wanted_s=since_s if tenant.state == "unloaded" else None,
            due_s=inf if since_s is None else since_s + self.rules.swap_s,
        )

    def _obey(self, plan: Plan) -> None:
        for name in plan.refuse:
            self.left_s |= dict.fromkeys(self._visits(name), 0.0)
        self.tenants = [self._told(tenant, plan) for tenant in self.tenants]
        taken = [tenant for tenant in self.tenants if tenant.state != "unloaded"]
        if self.scene.coload:
            assert total_bytes(self.tenants) <= self.rules.capacity_bytes
        else:
            assert len(taken) <= 1

    def _told(self, tenant: Tenant, plan: Plan) -> Tenant:
        if tenant.name in plan.load:
            assert tenant.state == "unloaded"
            self.loads.append((tenant.name, self.now_s))
            self.until_s[tenant.name] = self.now_s + tenant.load_s
            return replace(tenant, state="loading")
        if tenant.name in plan.leave:
            assert tenant.state == "ready"
            assert tenant.policy != "HARD_PIN"
            self.until_s[tenant.name] = self.now_s + self.UNLOAD_S
            return replace(tenant, state="unloading")
        return tenant

    def _work(self) -> None:
        for index, tenant in enumerate(self.tenants):
            visits = self._visits(tenant.name)
            for visit in visits:
                if tenant.state == "ready":
                    self.left_s[visit] -= self.STEP_S
                    self.waits_s[visit] = 0.0
                else:
                    self.waits_s[visit] += self.STEP_S
                    self.unheard_s[visit] = max(self.unheard_s[visit], self.waits_s[visit])
            if visits and tenant.state == "ready":
                self.tenants[index] = replace(tenant, used_s=self.now_s)


@settings(max_examples=60, deadline=None)
@given(scenes(endless=True))
def test_memory_is_never_exceeded_pins_are_kept_nobody_waits_for_ever_and_nothing_thrashes(
    scene: Scene,
) -> None:
    machine = Machine(scene)
    machine.run(300.0)
    unserved = [visit for visit, left_s in machine.left_s.items() if left_s > 0 and visit.work_s < ENDLESS_S]
    assert unserved == []
    for tenant in machine.tenants:
        if tenant.policy == "HARD_PIN":
            assert tenant.state == "ready"
    longest_s = max(scene.loads_s)
    # In the worst case each other unit is served before, for as long as its own load took.
    turn_s = longest_s + max(ONE.settle_s, longest_s) + ONE.swap_s + 2
    assert all(waited_s <= turn_s * len(scene.sizes_gb) for waited_s in machine.unheard_s.values())
    for name in {name for name, _ in machine.loads}:
        times_s = [at_s for one, at_s in machine.loads if one == name]
        load_s = scene.loads_s[int(name)]
        assert all(
            after - before >= load_s + max(ONE.settle_s, load_s) for before, after in pairwise(times_s)
        )


@settings(max_examples=30, deadline=None)
@given(scenes())
def test_when_all_is_quiet_a_soft_pin_that_fits_is_back(scene: Scene) -> None:
    machine = Machine(scene)
    machine.run(300.0)
    states = {tenant.name: tenant for tenant in machine.tenants}
    soft = [tenant for tenant in states.values() if tenant.policy == "SOFT_PIN"]
    pinned = [tenant for tenant in states.values() if tenant.policy != "UNPINNED" and tenant.state == "ready"]
    if soft and not pinned:
        pytest.fail(f"none of {soft} is back")


@st.composite
def tenants(draw: st.DrawFn) -> list[Tenant]:
    """Any moment, whether or not the planner would have let it come about."""
    moments = st.sampled_from(
        [-inf, 0.0, NOW_S - 31, NOW_S - 6, NOW_S - 1, NOW_S, NOW_S + 3, NOW_S + 60, inf]
    )
    return [
        Tenant(
            name=name,
            policy=draw(st.sampled_from(["HARD_PIN", "SOFT_PIN", "UNPINNED"])),
            state=draw(st.sampled_from(["unloaded", "unloaded", "loading", "ready", "ready", "unloading"])),
            size_bytes=draw(st.integers(0, 12)) * GB,
            busy=draw(st.booleans()),
            needed=draw(st.booleans()),
            dry_s=draw(moments),
            wanted_s=draw(st.none() | st.floats(0, NOW_S)),
            due_s=draw(moments),
            load_s=draw(st.floats(0, 40)),
            loaded_s=draw(moments),
            used_s=draw(moments),
            leaving=draw(st.booleans()),
            dismissed=draw(st.booleans()),
            barred=draw(st.booleans()),
        )
        for name in "abcd"[: draw(st.integers(1, 4))]
    ]


def taken(world: list[Tenant], names: Iterable[str], rules: MemoryRules) -> float:
    chosen = [tenant for tenant in world if tenant.name in names]
    if not rules.coload:
        return len(chosen)
    return sum(tenant.size_bytes or rules.capacity_bytes for tenant in chosen)


@settings(deadline=None)
@given(tenants(), st.sampled_from([ONE, SEVERAL]))
def test_at_any_moment_no_more_is_loaded_than_fits_and_only_who_may_leave_leaves(
    world: list[Tenant], rules: MemoryRules
) -> None:
    decided = plan(world, rules, NOW_S)
    by_name = {tenant.name: tenant for tenant in world}
    here = [tenant.name for tenant in world if tenant.state != "unloaded"]
    capacity = rules.capacity_bytes if rules.coload else 1
    if decided.load:
        assert taken(world, [*here, *decided.load], rules) <= capacity
    for name in decided.load:
        assert by_name[name].state == "unloaded"
        assert not by_name[name].barred
        assert by_name[name].wanted_s is not None or by_name[name].policy != "UNPINNED"
    for name in decided.leave:
        leaver = by_name[name]
        assert leaver.state == "ready"
        asked = leaver.dismissed or leaver.leaving
        assert asked or leaver.policy != "HARD_PIN"
        settled = NOW_S - leaver.loaded_s >= max(rules.settle_s, leaver.load_s)
        idle = not (leaver.busy or leaver.needed)
        assert asked or idle or settled, "one at work isn't driven out before it has been there a while"
    for former, successor in decided.makes_room:
        assert former in decided.leave
        assert by_name[former].policy != "HARD_PIN"
        assert by_name[successor].state == "unloaded"
    assert set(decided.refuse).isdisjoint(decided.load)


@given(scenes(), st.floats(0, 100))
def test_a_plan_is_the_same_for_the_same_state(scene: Scene, now_s: float) -> None:
    tenants = Machine(scene).tenants
    assert plan(tenants, SEVERAL, now_s) == plan(list(tenants), SEVERAL, now_s)
