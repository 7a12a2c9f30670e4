"""The server under test, as a process of its own."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

_READY_S = 60
_STOP_S = 15
OPEN = ("--max-load", "1.2", "--max-streams", "1000", "--queue", "1000")
"""Lets in more than it would: what the machine holds is measured, not what the server believes of it."""


@dataclass(frozen=True, slots=True)
class Running:
    port: int
    process: psutil.Process

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/v1/speak"

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def rss_bytes(self) -> int:
        return int(self.process.memory_info().rss)

    def cpu_s(self) -> float:
        times = self.process.cpu_times()
        return float(times.user + times.system)


@contextmanager
def running(*flags: str, log: Path = Path(os.devnull)) -> Iterator[Running]:
    port = free_port()
    command = [sys.executable, "-m", "saystream", "serve", "--port", str(port), "--no-cache", *flags]
    with log.open("ab") as output:
        child = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            _wait_ready(port, child)
            yield Running(port, psutil.Process(child.pid))
        finally:
            stop(child)


def stop(child: "subprocess.Popen[bytes]") -> None:
    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):  # a second SIGTERM means: at once
        if child.poll() is None:
            child.send_signal(number)
            try:
                child.wait(_STOP_S / 3)
            except subprocess.TimeoutExpired:
                continue


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_ready(port: int, child: "subprocess.Popen[bytes]") -> None:
    give_up_s = time.monotonic() + _READY_S
    while time.monotonic() < give_up_s:
        if child.poll() is not None:
            raise RuntimeError(f"the server ended with {child.returncode}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.1)
    raise RuntimeError("the server didn't get ready")
