"""Thirty clients that are gone at the worst moments, in every way; afterwards everything is as it was before."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal

import anyio
import psutil
import pytest
from anyio.abc import SocketStream

from protocol.messages import Audio, Done, End, Open, Text
from tests.hardening.raw import HangUp, packed, receive_until, reset_on_close, upgraded
from tests.ws_server.running import Running, running

CLIENTS = 30
ROUNDS = int(os.environ.get("HANG_UPS", "30")) // CLIENTS
LONG = "One two three four five six seven eight nine ten. " * 20
When = Literal["queued", "loading", "before the first frame", "speaking"]


@dataclass(frozen=True)
class Counts:
    """All that a client can leave behind."""

    in_flight: int
    queued: int
    listeners: int
    streams: int
    sessions: int
    sockets: int
    of_the_key: int
    tasks: int
    threads: int
    descriptors: int


def counts(server: Running) -> Counts:
    device = server.services.dispatcher
    return Counts(
        in_flight=device.in_flight,
        queued=device.queued,
        listeners=device.open_listeners,
        streams=device.open_streams,
        sessions=len(server.services.sessions),
        sockets=len(server.connections),
        of_the_key=server.services.quotas.of("open").streams,
        tasks=len(asyncio.all_tasks()),
        threads=threading.active_count(),
        descriptors=psutil.Process().num_fds(),
    )


async def until_as(server: Running, before: Counts) -> None:
    with anyio.move_on_after(30):
        while counts(server) != before:  # noqa: ASYNC110 - nobody tells of a descriptor that was closed
            await anyio.sleep(0.02)
    assert counts(server) == before


async def until(true: Callable[[], bool]) -> None:
    with anyio.fail_after(30):
        while not true():  # noqa: ASYNC110 - as above
            await anyio.sleep(0.01)


async def speak_once(server: Running) -> None:
    """So that what is made once is there before the counting begins."""
    async with server.speak() as client:
        await client.receive()
        await client.send(Open(id="a"), Text(id="a", text="One."), End(id="a"))
        await client.receive_done()


def settings(when: When, how: HangUp) -> dict[str, Any]:
    ping_s = 0.3 if how == "silence" else 20
    match when:
        case "queued":
            return {"ping_s": ping_s, "max_streams": 1, "queue": 1000, "engines": {"tone": {"step_ms": 100}}}
        case "loading":
            return {"ping_s": ping_s, "engine": "hibari", "engines": {"tone": {"load_s": 1.5}}}
        case "before the first frame":
            return {"ping_s": ping_s, "engines": {"tone": {"first_step_s": 0.2, "step_ms": 100}}}
        case "speaking":
            # All are to speak at once, also where the machine has other work and each step takes long.
            return {
                "ping_s": ping_s,
                "max_load": 100,
                "engines": {"tone": {"cost": 0.01, "step_ms": 100}},
            }


@asynccontextmanager
async def somebody_speaking(server: Running) -> AsyncIterator[None]:
    """Holds the only slot."""
    async with server.speak() as client, anyio.create_task_group() as tasks:
        await client.receive()
        await client.send(Open(id="a"), Text(id="a", text=LONG))
        await client.receive_until(Audio)
        tasks.start_soon(client.receive_until, Done)
        yield
        tasks.cancel_scope.cancel()


def arrived(server: Running, when: When) -> Callable[[SocketStream], Awaitable[None]]:
    """Waits for the moment in which one client hangs up."""
    device = server.services.dispatcher

    async def queued(_: SocketStream) -> None:
        await until(lambda: device.queued == CLIENTS)

    async def loading(stream: SocketStream) -> None:
        # Of an engine whose cost isn't known yet only some are let in; the others wait for those.
        await receive_until(stream, b"\xa6queued")

    async def before_the_first_frame(_: SocketStream) -> None:
        await until(lambda: device.open_listeners == CLIENTS and device.open_streams > 0)

    async def speaking(stream: SocketStream) -> None:
        await receive_until(stream, b"\xa5audio")

    match when:
        case "queued":
            return queued
        case "loading":
            return loading
        case "before the first frame":
            return before_the_first_frame
        case "speaking":
            return speaking


async def hang_up_many(server: Running, when: When, how: HangUp) -> None:
    moment = arrived(server, when)
    others = len(server.services.sessions)
    there: list[SocketStream] = []

    async def one() -> None:
        async with upgraded(server.port) as stream:
            await stream.send(packed(Open(id="a", engine="tone"), Text(id="a", text=LONG)))
            # One who is silent for long may have been cut before the last has come.
            with suppress(anyio.EndOfStream):
                await moment(stream)
            there.append(stream)
            await until(lambda: len(there) == CLIENTS)
            if how == "silence":
                await until(lambda: len(server.services.sessions) == others)
            elif how == "rst":
                reset_on_close(stream)

    async with anyio.create_task_group() as clients:
        for _ in range(CLIENTS):
            clients.start_soon(one)


async def one_round(when: When, how: HangUp) -> None:
    async with running(**settings(when, how)) as server:
        await speak_once(server)
        if when != "queued":
            await until(lambda: len(server.services.sessions) == 0)
            before = counts(server)
            await hang_up_many(server, when, how)
            await until_as(server, before)
            return
        async with somebody_speaking(server):
            before = counts(server)
            await hang_up_many(server, when, how)
            await until_as(server, before)


@pytest.mark.parametrize("how", ["rst", "fin", "silence"])
@pytest.mark.parametrize("when", ["queued", "loading", "before the first frame", "speaking"])
async def test_thirty_hang_ups_leave_nothing_behind(when: When, how: HangUp) -> None:
    for _ in range(ROUNDS):
        await one_round(when, how)
