"""How late the event loop is: what everybody waits for, whoever caused it."""

import asyncio
from collections.abc import Callable

import anyio

PERIOD_S = 0.1


async def watch_lag(note: Callable[[float], None]) -> None:
    """Until cancelled; calls `note` ten times a second with the seconds that a timer was late."""
    loop = asyncio.get_running_loop()
    while True:
        due_s = loop.time() + PERIOD_S
        await anyio.sleep(PERIOD_S)
        note(max(0.0, loop.time() - due_s))
