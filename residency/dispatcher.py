"""The event loop's front to the devices: open a listener, submit its segments, get samples back."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from math import inf
from types import TracebackType
from typing import Self

import anyio
from anyio.to_thread import run_sync

from engines.contract import Facts, Request
from residency.errors import UnknownUnit
from residency.estimates import UNKNOWN_COST
from residency.footprints import Footprints
from residency.listener import Listener, ListenerHandler, ListenerSpec
from residency.memory import Memory
from residency.planner import Policy
from residency.pool import Pool
from residency.rules import Rules
from residency.units import Unit, UnitStatus
from voices.reference import Clone

log = logging.getLogger(__name__)

TICK_S = 0.25
STOP_S = 5.0
"""A lane that hasn't ended its step by then is left behind."""


class Dispatcher:
    """`async with` it: entering starts the lanes, leaving ends them and unloads their models.

    Every method is for the loop that entered it and returns at once. Handlers are called on that loop, never from
    within a method of this class.
    """

    def __init__(
        self, units: Iterable[Unit], rules: Rules | None = None, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._rules = rules or Rules()
        self._units = {unit.name: unit for unit in units}
        self._pools: dict[str, Pool] = {}
        self._footprints = Footprints(self._rules.footprints_file)
        for name in dict.fromkeys(map(_pool_name, self._units.values())):
            members = {unit.name: unit for unit in self._units.values() if _pool_name(unit) == name}
            device = next(iter(members.values())).device
            self._pools[name] = Pool(
                name,
                members,
                rules=self._rules,
                now=now,
                lanes=self._rules.engine_threads if device == "cpu" else 1,
                governed=self._rules.memory_of(device).limited,
                footprints=self._footprints,
            )
        for pool in self._pools.values():
            pool.rivals = tuple(rival for rival in self._pools.values() if _compete(pool, rival))
        self._memories = {device: self._memory_of(device, now) for device in self._devices()}
        self._exit = AsyncExitStack()

    def _devices(self) -> list[str]:
        return list(dict.fromkeys(unit.device for unit in self._units.values()))

    def _memory_of(self, device: str, now: Callable[[], float]) -> Memory:
        pools = {name: self._pool(name) for name, unit in self._units.items() if unit.device == device}
        return Memory(device, pools, self._rules.policies, self._rules.memory_of(device), now=now)

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for pool in self._pools.values():
            pool.start(loop, self._replan)
        self._replan()
        ticking = await self._exit.enter_async_context(anyio.create_task_group())
        ticking.start_soon(self._tick)
        self._exit.callback(ticking.cancel_scope.cancel)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self._exit.aclose()
        finally:
            with anyio.CancelScope(shield=True):
                for pool in self._pools.values():
                    if not await run_sync(pool.stop, STOP_S):
                        log.error("a lane of %s is still in a step and is left behind", pool.name)

    async def _tick(self) -> None:
        while True:
            await anyio.sleep(TICK_S)
            self.tick()

    def tick(self) -> None:
        """Deadlines, the queue's wait, slots of those who have run dry. Runs by itself."""
        for pool in self._pools.values():
            pool.tick()
        self._replan()

    # What is in memory

    def _replan(self) -> None:
        for memory in self._memories.values():
            memory.replan()

    async def loaded(self, unit: str) -> None:
        """Load it on every lane of its device, and wait until that is done. Raises EngineUnavailable,
        EngineStalled.
        """
        await self._pool(unit).loaded(unit)

    async def unloaded(self, unit: str) -> None:
        """Unload it when no work is on it any more, and wait until that is done. It is loaded again when somebody
        wants it.
        """
        self.unload(unit)
        await self._pool(unit).unloaded(unit)

    def prepare(self, unit: str, clone: Clone) -> None:
        """Have an uploaded voice made ready when nobody needs the device, if the unit is loaded."""
        self._pool(unit).prepare(unit, clone)

    def unload(self, unit: str) -> None:
        """The same, without the wait."""
        self._memory(unit).dismiss(unit)

    def set_policy(self, unit: str, policy: Policy) -> None:
        memory = self._memory(unit)
        memory.policies[unit] = policy
        memory.replan()

    def policy(self, unit: str) -> Policy:
        return self._memory(unit).policy(unit)

    def _memory(self, unit: str) -> Memory:
        return self._memories[self._unit(unit).device]

    # Listeners

    def open(
        self, spec: ListenerSpec, handler: ListenerHandler, replaces: Listener | None = None
    ) -> Listener:
        """Raises UnknownUnit. `replaces` is closed and its slot or queue place taken over."""
        pool = self._pool(spec.unit)
        if replaces is not None and (old := self._pool(replaces.spec.unit)) is not pool:
            old.close(replaces)
            replaces = None
        return pool.open(spec, handler, replaces)

    def submit(self, listener: Listener, request: Request, cut_s: float) -> int:
        """One segment, whose text was cut at `cut_s`; a listener's are made in order, one at a time."""
        return self._pool(listener.spec.unit).submit(listener, request, cut_s)

    def extend(self, listener: Listener, job: int, text: str, *, last: bool) -> bool:
        """More text for a segment that was submitted with last=False. False: it takes none any more, since others
        couldn't wait for it; what is to follow is another segment.
        """
        return self._pool(listener.spec.unit).extend(listener, job, text, last=last)

    def replay(self, listener: Listener, audio_s: float) -> None:
        """So much of its audio was there already: it will run dry later, and needs no slot for it."""
        self._pool(listener.spec.unit).replay(listener, audio_s)

    def close(self, listener: Listener) -> None:
        """No step starts for it after this, and its handler isn't called again; idempotent."""
        self._pool(listener.spec.unit).close(listener)

    # Questions

    @property
    def load(self) -> float:
        """The part of the busiest device's time that slot holders need, 0..1."""
        return max((pool.load for pool in self._pools.values()), default=0.0)

    @property
    def in_flight(self) -> int:
        """Utterances that hold a slot."""
        return sum(pool.in_flight for pool in self._pools.values())

    @property
    def queued(self) -> int:
        return sum(pool.queued for pool in self._pools.values())

    @property
    def open_streams(self) -> int:
        return sum(pool.open_streams for pool in self._pools.values())

    @property
    def open_listeners(self) -> int:
        return sum(pool.open_listeners for pool in self._pools.values())

    @property
    def wedged(self) -> bool:
        """A lane hasn't come back from a step within its deadline."""
        return any(pool.wedged for pool in self._pools.values())

    @property
    def max_streams(self) -> int:
        """Slots for listeners of the first unit at speed 1, as far as its cost is known."""
        name = self._default(None)
        pool = self._pool(name)
        streams = pool.max_streams(name)
        return int(streams if streams < inf else pool.capacity / UNKNOWN_COST)

    def full(self, unit: str | None = None) -> bool:
        """Whether neither a slot nor a queue place is free."""
        name = self._default(unit)
        return self._pool(name).full(name)

    def retry_after_s(self, unit: str | None = None) -> float:
        """Work ahead over the measured rate; 0: a slot is free."""
        return self._pool(self._default(unit)).retry_after_s()

    def estimate_step_s(self, unit: str, chars: int) -> float:
        """What nine of ten first steps for a text of this length take at most."""
        return self._pool(unit).step_s(unit, chars)

    @property
    def crowded(self) -> bool:
        """Several hold slots, so that a long step makes others wait."""
        return self.in_flight > 1

    @property
    def max_step_s(self) -> float:
        """The longest step that the others should have to wait for."""
        return self._rules.max_step_s

    def estimate_audio_s(self, unit: str, chars: int) -> float:
        """The expected length of so much text at speed 1."""
        return self._pool(unit).speech_s(unit, chars)

    def facts(self, unit: str) -> Facts:
        return self._unit(unit).facts

    def status(self, unit: str) -> UnitStatus:
        return self._pool(unit).status(unit, self.policy(unit))

    def statuses(self) -> list[UnitStatus]:
        return [self.status(name) for name in self._units]

    def _default(self, unit: str | None) -> str:
        return next(iter(self._units)) if unit is None else unit

    def _unit(self, name: str) -> Unit:
        try:
            return self._units[name]
        except KeyError:
            raise UnknownUnit(name) from None

    def _pool(self, unit: str) -> Pool:
        return self._pools[_pool_name(self._unit(unit))]


def _compete(pool: Pool, other: Pool) -> bool:
    """For one accelerator; processes on a CPU have cores of their own, if the operator has counted right."""
    return pool is not other and pool.device == other.device != "cpu"


def _pool_name(unit: Unit) -> str:
    """A hosted unit has lanes of its own, which wait on their pipes."""
    return f"{unit.device}-{unit.name}" if unit.hosted else unit.device
