"""A real server on a port of its own, in the test's loop."""

import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import httpx
from anyio import to_thread
from pydantic import SecretStr
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from protocol.codec import JSON, MSGPACK
from protocol.messages import ClientMessage, Done, ServerMessage
from ws_server.app import App, create_app
from ws_server.binding import bind
from ws_server.serve import Server, config_of, serve_until_drained
from ws_server.services import Services
from ws_server.settings import Settings

SPEAK_KEY = "speak-speak-speak-speak"
ADMIN_KEY = "admin-admin-admin-admin"
KEYS = (SecretStr(f"web:speak:{SPEAK_KEY}"), SecretStr(f"ops:admin:{ADMIN_KEY}"))


@dataclass(frozen=True)
class Running:
    app: App
    port: int
    http: httpx.AsyncClient
    connections: set[Any]
    """uvicorn's, and"""
    tasks: set[Any]
    """one for each request."""
    context: ssl.SSLContext | None

    @property
    def services(self) -> Services:
        return self.app.services

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/v1/speak"

    @asynccontextmanager
    async def speak(self, query: str = "", *, json: bool = False, **options: Any) -> AsyncIterator["Speaker"]:
        codec = JSON if json else MSGPACK
        options.setdefault("subprotocols", [Subprotocol(codec.subprotocol)])
        async with connect(self.url + query, compression=None, max_size=None, **options) as socket:
            yield Speaker(socket, json=json)


class Speaker:
    """A client that knows the messages and nothing else."""

    def __init__(self, socket: ClientConnection, *, json: bool = False) -> None:
        self.socket = socket
        self._codec = JSON if json else MSGPACK

    async def send(self, *messages: ClientMessage) -> None:
        for message in messages:
            await self.socket.send(self._codec.encode_client(message))

    async def receive(self) -> ServerMessage:
        return self._codec.decode_server(await self.socket.recv())

    async def receive_until(self, kind: type[ServerMessage], count: int = 1) -> list[ServerMessage]:
        """Everything up to the `count`th message of this kind."""
        messages: list[ServerMessage] = []
        with anyio.fail_after(20):
            while count:
                messages.append(await self.receive())
                count -= isinstance(messages[-1], kind)
        return messages

    async def receive_done(self) -> Done:
        done = (await self.receive_until(Done))[-1]
        assert isinstance(done, Done)
        return done


@asynccontextmanager
async def running(*, ready: bool = True, **changes: Any) -> AsyncIterator[Running]:
    """Speaks with `tone` unless told otherwise; ends, when left, by the drain that SIGTERM begins."""
    values = {
        "engine": "tone",
        "port": 0,
        "page": False,
        "drain_s": 0.0,
        "max_streams": 100,
        "cache": False,
        "voices_dir": "/nonexistent",
        **changes,
    }
    settings = Settings(**values)
    app = await to_thread.run_sync(partial(create_app, settings, probe=False))
    listening = await to_thread.run_sync(bind, settings)
    config = config_of(app, settings)
    await to_thread.run_sync(config.load)
    port = listening.getsockname()[1]
    server, stopped = Server(config), anyio.Event()

    async def serve() -> None:
        await serve_until_drained(server, app.services, listening)
        stopped.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        try:
            if ready:
                with anyio.fail_after(20):
                    await app.services.readiness.settled()
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
                state = server.server_state
                yield Running(app, port, client, state.connections, state.tasks, config.ssl)
        finally:
            app.services.sessions.drain(time.monotonic())
            with anyio.CancelScope(shield=True), anyio.move_on_after(10):
                await stopped.wait()
