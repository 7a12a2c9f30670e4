"""One unit of a roster, as the planner of the device's memory sees it."""

from collections.abc import Iterable
from math import inf

from residency.admission import Admission
from residency.lane_state import LaneState
from residency.listener import Listener
from residency.loads import Loads
from residency.planner import Policy, Tenant, TenantState


def tenant_of(
    unit: str,
    policy: Policy,
    size_bytes: int,
    *,
    loads: Loads,
    lanes: Iterable[LaneState],
    listeners: Iterable[Listener],
    now_s: float,
    swap_s: float,
) -> Tenant:
    """Takes back a leave to load that nobody needs any more. `listeners`: those of the unit that hold a slot."""
    wanted_s = loads.wanted_s(unit)
    if wanted_s is None and policy == "UNPINNED" and loads.pending(unit):
        loads.withdraw(unit)
    if policy != "UNPINNED":
        loads.pin(unit)
    state = _state(unit, loads)
    load_s = loads.load_s.get(unit, 0.0)
    working = list(listeners)
    busy = any(
        lane.open_of(unit) or lane.loading == unit or (lane.step is not None and lane.step.unit == unit)
        for lane in lanes
    )
    return Tenant(
        name=unit,
        policy=policy,
        state=state,
        size_bytes=size_bytes,
        busy=busy,
        needed=bool(working),
        dry_s=min((_dry_s(one, now_s) for one in working), default=inf),
        wanted_s=wanted_s if state == "unloaded" else None,
        due_s=min(
            (_due_s(one, now_s, load_s, swap_s) for one in working), default=_asked_s(wanted_s, swap_s)
        ),
        load_s=load_s,
        loaded_s=loads.loaded_s.get(unit, -inf),
        used_s=loads.used_s.get(unit, -inf),
        leaving=unit in loads.leaving,
        # Nobody makes room for what is still on its way.
        barred=loads.barred(unit, now_s) or not loads.fetched(unit),
    )


def at_work(listeners: Iterable[Listener], admission: Admission, unit: str) -> list[Listener]:
    """Those that the unit has something to do for, or may have in a moment."""
    return [
        one
        for one in listeners
        if one.spec.unit == unit and (admission.holds(one.key) or one.entry.lane is not None)
    ]


def _state(unit: str, loads: Loads) -> TenantState:
    if loads.unloading(unit):
        return "unloading"
    if loads.here(unit):
        return "ready"
    return "loading" if loads.loading(unit) or loads.pending(unit) else "unloaded"


def _dry_s(listener: Listener, now_s: float) -> float:
    dry_s = listener.entry.dry_s()
    return now_s if dry_s is None else dry_s


def _due_s(listener: Listener, now_s: float, load_s: float, swap_s: float) -> float:
    """Before it runs dry; for one that hears nothing, a bounded time after its text came."""
    if not listener.jobs:
        return inf
    dry_s = listener.entry.dry_s()
    if dry_s is not None and dry_s > now_s:
        return dry_s - load_s - swap_s
    return listener.entry.cut_s + swap_s


def _asked_s(wanted_s: float | None, swap_s: float) -> float:
    return inf if wanted_s is None else wanted_s + swap_s
