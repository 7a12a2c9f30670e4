"""A dispatcher in a test: memory as it needs it, and somebody who speaks."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from residency.dispatcher import Dispatcher
from residency.listener import ListenerSpec
from residency.planner import MemoryRules, Policy
from residency.rules import Rules
from residency.units import Unit
from tests.fakes.models import request
from tests.residency.handlers import Notes

ONE = MemoryRules(capacity_bytes=1, settle_s=0.0, swap_s=0.0, restore_s=30.0, idle_s=60.0)
FREE = MemoryRules(idle_s=60.0)


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def dispatch(
    *units: Unit,
    memory: MemoryRules = ONE,
    policies: Mapping[str, Policy] | None = None,
    now: Callable[[], float] | None = None,
    **more: Any,
) -> Dispatcher:
    rules = Rules(memory={"cpu": memory}, policies=policies or {}, **more)
    return Dispatcher(units, rules, now=now) if now is not None else Dispatcher(units, rules)


async def say(dispatcher: Dispatcher, name: str, text: str = "hello") -> Notes:
    """Until it is said, or isn't."""
    notes = Notes()
    listener = dispatcher.open(ListenerSpec(unit=name), notes)
    dispatcher.submit(listener, request(text), 0.0)
    listener.finish_text()
    await notes._until(lambda: bool(notes.jobs_done or notes.failures or notes.refusals))
    dispatcher.close(listener)
    return notes


async def until(reached: Callable[[], bool], dispatcher: Dispatcher | None = None) -> None:
    async with asyncio.timeout(60):
        while not reached():
            if dispatcher is not None:
                dispatcher.tick()
            await asyncio.sleep(0.001)


def resident(dispatcher: Dispatcher) -> list[str]:
    return [status.name for status in dispatcher.statuses() if status.state in {"ready", "draining"}]


async def say_nothing(dispatcher: Dispatcher) -> None:
    """Long enough for a lane to have done what it was told."""
    for _ in range(20):
        dispatcher.tick()
        await asyncio.sleep(0.001)
