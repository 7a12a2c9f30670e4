"""A real server in a process of its own, for tests that need one."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parents[1]
READY_WITHIN_S = 60
STOPS_WITHIN_S = 20


@dataclass(frozen=True, slots=True)
class Server:
    host: str
    port: int
    process: "subprocess.Popen[bytes]"
    log: Path
    """What it has written to both of its outputs."""

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def ws_url(self) -> str:
        return f"ws://{self.host}:{self.port}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(*flags: str, port: int | None = None, prefix: tuple[str, ...] = ()) -> Iterator[Server]:
    """`saystream serve` with `flags` on a free port of loopback; ready when entered, gone when left.

    `prefix`: what runs the command.
    """
    port = free_port() if port is None else port
    log = tempfile.NamedTemporaryFile(prefix="saystream-", suffix=".log", delete=False)  # noqa: SIM115 - the server holds it
    command = [*prefix, sys.executable, "-m", "saystream", "serve", "--port", str(port), "--no-cache", *flags]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SAYSTREAM_")}
    process = subprocess.Popen(command, cwd=ROOT, env=clean, stdout=log, stderr=subprocess.STDOUT)
    log.close()
    server = Server("127.0.0.1", port, process, Path(log.name))
    try:
        wait_until_ready(server)
        yield server
    finally:
        _stop(process)
        server.log.unlink(missing_ok=True)


def wait_until_ready(server: Server) -> None:
    deadline_s = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline_s:
        if server.process.poll() is not None:
            raise RuntimeError(
                f"the server ended with {server.process.returncode}:\n{server.log.read_text()}"
            )
        try:
            with urlopen(f"{server.url}/readyz", timeout=2):  # noqa: S310 - our own address
                return
        except (URLError, OSError):
            time.sleep(0.05)
    raise RuntimeError(f"the server wasn't ready within {READY_WITHIN_S} s:\n{server.log.read_text()}")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
