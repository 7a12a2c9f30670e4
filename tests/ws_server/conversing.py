"""A session without a socket: the test is its reader, a task is its writer, and the order is checked by a client."""

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import anyio
from anyio import to_thread

from engines.tone import ToneEngine
from protocol.client import ClientConversation
from protocol.messages import Audio, ClientMessage, Done, Error, ServerMessage
from ws_server.auth import OPEN, Identity
from ws_server.device import make_dispatcher
from ws_server.services import Services
from ws_server.session import CloseConnection, Session
from ws_server.settings import Settings

LIMIT_S = 20
RATE_HZ = 24000
SENTENCE = "One two three four five six seven eight."
"""Without its spaces 33 characters and 8 gaps: 2.46 s of tone."""
SENTENCE_SAMPLES = (33 + 8) * 60 * RATE_HZ // 1000
M = TypeVar("M", bound=ServerMessage)


class Gate:
    """Holds the engine in its step until a test lets it go on."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()
        self.held = 0
        self.steps = 0

    def shut(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    def sleep(self, _: float) -> None:
        self.held += 1
        self.steps += 1
        self._open.wait(LIMIT_S)
        self.held -= 1


@dataclass
class Server:
    services: Services
    gate: Gate

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Slots, queue places, listeners, streams: all that an utterance can leave behind."""
        device = self.services.dispatcher
        return device.in_flight, device.queued, device.open_listeners, device.open_streams

    async def until_nothing_is_left(self) -> None:
        await until(lambda: self.counts == (0, 0, 0, 0))

    @asynccontextmanager
    async def connect(self, identity: Identity = OPEN) -> AsyncIterator["Conversing"]:
        async with (
            Session(self.services, identity, peer="test") as session,
            anyio.create_task_group() as tasks,
        ):
            talk = Conversing(session)
            tasks.start_soon(talk.write)
            yield talk
            tasks.cancel_scope.cancel()


class Conversing:
    """What the client said and heard."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.client: ClientConversation | None = ClientConversation()
        """Set it to None for a client that keeps to no rules."""
        self.messages: list[ServerMessage] = []
        self.closed: CloseConnection | None = None
        self._reads = anyio.Event()
        self._reads.set()
        self._last_read: type[ServerMessage] | None = None

    def say(self, *messages: ClientMessage) -> None:
        """As a correct client does."""
        for message in messages:
            for out in (message,) if self.client is None else self.client.send(message):
                self.session.receive(out)

    def stop_reading(self, *, after: type[ServerMessage] | None = None) -> None:
        """At once, or when the first message of that kind has come: no other is read then, however late the test is."""
        if after is None:
            self._reads = anyio.Event()
        self._last_read = after

    def read_again(self) -> None:
        self._reads.set()

    async def write(self) -> None:
        """What a socket's writer does; raises what the client finds wrong with the order."""
        while True:
            message = await self.session.next()
            if isinstance(message, CloseConnection):
                self.closed = message
                return
            self.session.blocked(True)
            await self._reads.wait()
            self.session.blocked(False)
            if self.client is not None:
                self.client.receive(message)
            self.messages.append(message)
            if self._last_read is not None and isinstance(message, self._last_read):
                self.stop_reading()
            self.session.sent(message)
            await anyio.lowlevel.checkpoint()

    async def one(self, kind: type[M], **fields: Any) -> M:
        """The first message of that kind with those fields, as soon as it is there."""
        return (await self.some(kind, 1, **fields))[0]

    async def some(self, kind: type[M], count: int, **fields: Any) -> list[M]:
        await until(lambda: len(self.heard(kind, **fields)) >= count)
        return self.heard(kind, **fields)

    def heard(self, kind: type[M], **fields: Any) -> list[M]:
        return [
            message
            for message in self.messages
            if isinstance(message, kind)
            and all(getattr(message, name) == value for name, value in fields.items())
        ]

    async def done(self, id: str = "a") -> Done:  # noqa: A002 - the wire's name
        return await self.one(Done, id=id)

    async def failed(self, id: str = "a") -> Error:  # noqa: A002 - the wire's name
        """The error that precedes its `done`."""
        assert (await self.done(id)).reason in {"failed", "timeout"}
        return self.heard(Error, id=id)[-1]

    def samples(self, id: str = "a") -> int:  # noqa: A002 - the wire's name
        """Of s16le."""
        return sum(len(frame.pcm) // 2 for frame in self.heard(Audio, id=id))


async def until(true: Callable[[], bool]) -> None:
    with anyio.fail_after(LIMIT_S):
        while not true():  # noqa: ASYNC110 - what it waits for tells nobody
            await anyio.sleep(0.001)


def gated_services(settings: Settings, gate: Gate) -> Services:
    services = Services.of(settings, probe=False)
    catalogue = services.catalogue
    catalogue._entries = {"tone": replace(catalogue.entry("tone"), engine=ToneEngine(gate.sleep))}
    services.dispatcher = make_dispatcher(settings, catalogue, services.library, probe=False)
    return services


@asynccontextmanager
async def serving(*, loaded: bool = True, **changes: Any) -> AsyncIterator[Server]:
    """`tone` behind a gate, on a dispatcher of its own. Not `loaded`: the gate is shut, so that a load lasts."""
    gate = Gate()
    if not loaded:
        gate.shut()
    values: dict[str, Any] = {
        "engine": "tone",
        "max_streams": 100,
        "cache": False,
        "voices_dir": "/nonexistent",
        **changes,
    }
    values["engines"] = {"tone": {"cost": 0.01, "faults": True, **changes.get("engines", {}).get("tone", {})}}
    settings = Settings(**values)
    services = await to_thread.run_sync(gated_services, settings, gate)
    try:
        async with services.dispatcher:
            if loaded:
                await services.dispatcher.loaded("tone")
            yield Server(services, gate)
            gate.open()
    finally:
        gate.open()
