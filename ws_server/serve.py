"""The process: binds first, loads then, drains when told to stop; its exit code tells a supervisor the truth."""

import asyncio
import gc
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

import anyio
import uvicorn
from anyio import to_thread

from ws_server import log
from ws_server.app import App, create_app
from ws_server.auth import Key, read_keys, readable_by_all
from ws_server.binding import BIND_FAILED, CantBind, bind, require_keys_beyond_this_machine
from ws_server.check import check
from ws_server.services import Services
from ws_server.settings import BadSettings, Settings, load
from ws_server.transport import connection_classes

__all__ = ["check", "main", "serve"]

OK = 0
STOPPED_TWICE = 1
BAD_SETTINGS = 78
"""EX_CONFIG of sysexits.h: starting again changes nothing."""
_SWITCH_INTERVAL_S = 0.0005
"""Lanes hold the interpreter between numpy calls; with the default of 5 ms each wake-up of the loop could wait that
long for its turn, with 0.5 ms a tenth of it, at a cost that the throughput doesn't show."""
_KEEP_ALIVE_S = 15
_SPARE_CONNECTIONS = 256
"""For health checks and the page, beyond max_connections."""
_CLOSING_S = 2.0
"""After the drain's deadline, for the last close frames."""


def main(argv: list[str] | None = None) -> int:
    """`saystream serve`. Returns when the process should end."""
    try:
        settings = load(argv)
        log.configure(settings.log_format, settings.log_level)
        require_keys_beyond_this_machine(settings, keyed=bool(read_keys(settings)))
        if (why := readable_by_all(settings)) is not None:
            log.Log().warning("keys file", why=why)
        with bind(settings) as listening:
            app = create_app(settings)
            return _run(app, listening, argv)
    except BadSettings as error:
        _complain(str(error))
        return BAD_SETTINGS
    except CantBind as error:
        _complain(str(error))
        return BIND_FAILED


def _complain(message: str) -> None:
    for line in message.splitlines():
        print(f"saystream: {line}", file=sys.stderr)  # noqa: T201 - a person started us


def _run(app: App, listening: socket.socket, argv: list[str] | None) -> int:
    with _switch_interval(_SWITCH_INTERVAL_S), asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(serve(app, listening, argv))


async def serve(app: App, listening: socket.socket, argv: list[str] | None = None) -> int:
    """Until drained, or told twice by a signal. `argv` is read again for new keys on SIGHUP."""
    server = Server(config_of(app, app.services.settings))
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(heed, signals, server, app.services, argv)
            tasks.start_soon(_announce, app.services, listening)
            await serve_until_drained(server, app.services, listening)
            tasks.cancel_scope.cancel()
    return STOPPED_TWICE if server.told_twice else OK


async def serve_until_drained(server: "Server", services: Services, listening: socket.socket) -> None:
    """Heeds no signals: for embedding, too."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_end_when_drained, server, services)
        await server.serve(sockets=[listening])
        tasks.cancel_scope.cancel()


def config_of(app: App, settings: Settings) -> uvicorn.Config:
    http, ws = connection_classes(
        request_head_s=settings.request_head_s, stalled_reader_s=settings.stalled_reader_s
    )
    return uvicorn.Config(
        app,
        interface="asgi3",
        http=http,
        ws=ws,
        ws_max_size=4 << 20,
        ws_per_message_deflate=False,
        ws_ping_interval=settings.ping_s,
        ws_ping_timeout=settings.ping_s,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        headers=[("x-content-type-options", "nosniff")],
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=3,
        limit_concurrency=settings.max_connections + _SPARE_CONNECTIONS,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        # Python's own list: one by name may have ciphers in it that hide nothing.
        ssl_ciphers=None,
    )


class Server(uvicorn.Server):
    """uvicorn's, with the signals left to us: its own handling neither drains nor exits with 0."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    told_twice = False

    def stop_now(self) -> None:
        # Not uvicorn's force_exit, which leaves the application's own cleanup out.
        self.told_twice = True
        self.should_exit = True


async def heed(
    signals: AsyncIterator[signal.Signals], server: Server, services: Services, argv: list[str] | None
) -> None:
    """The first signal drains, the second ends; SIGHUP reads the keys again."""
    reading = threading.Lock()
    async for number in signals:
        if number == signal.SIGHUP:
            _read_keys_again(services, argv, reading)
        elif services.sessions.draining:
            services.log.warning("stopping now", signal=number.name)
            server.stop_now()
        else:
            services.drain()


def _read_keys_again(services: Services, argv: list[str] | None, reading: threading.Lock) -> None:
    """In a thread that nobody waits for, not even the end: the file may lie on a disk that doesn't answer."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        with reading:
            try:
                then = partial(_replace_keys, services, read_keys(load(argv)))
            except BadSettings as error:
                then = partial(services.log.fault, "keys not read", why=str(error))
            with suppress(RuntimeError):  # the loop is gone
                loop.call_soon_threadsafe(then)

    threading.Thread(target=read, name="keys", daemon=True).start()


def _replace_keys(services: Services, keys: Sequence[Key]) -> None:
    services.auth.replace_keys(keys)
    services.log.info("keys read", keys=len(keys))


async def _end_when_drained(server: Server, services: Services) -> None:
    await services.sessions.wait_drain_started()
    with anyio.move_on_after(services.settings.drain_s + _CLOSING_S):
        await services.sessions.wait_none_left()
    server.should_exit = True


async def _announce(services: Services, listening: socket.socket) -> None:
    """One line, when it can speak."""
    await services.readiness.settled()
    if services.readiness.problem is not None:
        return
    # What is alive now stays: the collector needn't walk it again in the middle of somebody's speech.
    await to_thread.run_sync(gc.collect)
    gc.freeze()
    settings = services.settings
    host, port = listening.getsockname()[:2]
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    tls = "s" if settings.tls_cert else ""
    page = f"; the page that speaks live: http{tls}://{address}/" if settings.page else ""
    catalogue = services.catalogue
    print(  # noqa: T201 - a person started us
        f"saystream {services.version} speaks with {catalogue.default_engine} ({catalogue.default_voice}) "
        f"at ws{tls}://{address}/v1/speak{page}",
        flush=True,
    )


@contextmanager
def _switch_interval(interval_s: float) -> Iterator[None]:
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(interval_s)
    try:
        yield
    finally:
        sys.setswitchinterval(before_s)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # Windows
        return None
    return uvloop.new_event_loop
