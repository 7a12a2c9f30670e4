"""As the first process of a container: signals that nobody heeds are lost there, so the server heeds its own."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.serving import ROOT, free_port

PATIENCE_S = 40
FLAGS = ("--engine", "tone", "--no-page", "--no-cache", "--log-level", "warning")


@contextmanager
def first_process() -> Iterator["subprocess.Popen[str]"]:
    """`saystream serve` as process 1 of a PID namespace; ready."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a PID namespace needs root and unshare")
    command = ("unshare", "--pid", "--fork", "--kill-child", sys.executable, "-m", "saystream", "serve")
    with subprocess.Popen(
        [*command, "--port", str(free_port()), *FLAGS], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as outer:
        assert outer.stdout is not None
        try:
            if "speaks with tone" not in outer.stdout.readline():
                pytest.skip("a PID namespace isn't permitted")
            yield outer
        finally:
            outer.kill()


def child_of(outer: "subprocess.Popen[str]") -> int:
    children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text(encoding="ascii")
    return int(children.split()[0])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_by_one_signal_with_0(number: signal.Signals) -> None:
    with first_process() as outer:
        server = child_of(outer)
        assert b"NSpid:\t" in (status := Path(f"/proc/{server}/status").read_bytes())
        assert status.split(b"NSpid:\t")[1].split(b"\n")[0].split()[-1] == b"1"
        os.kill(server, number)
        assert outer.wait(PATIENCE_S) == 0


def test_a_signal_while_its_engine_loads_ends_it_though_the_load_goes_on() -> None:
    port = free_port()
    slow = ("--engines", '{"tone": {"load_s": 120}}')
    command = (sys.executable, "-m", "saystream", "serve", "--port", str(port), *FLAGS, *slow)
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as child:
        try:
            wait_until_live(port)
            assert status(port, "/readyz") == 503
            child.send_signal(signal.SIGTERM)
            assert child.wait(PATIENCE_S) == 0
        finally:
            child.kill()


def wait_until_live(port: int) -> None:
    give_up_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up_s:
        if status(port, "/livez") == 200:
            return
    raise TimeoutError("it isn't live")


def status(port: int, path: str) -> int | None:
    try:
        return httpx.get(f"http://127.0.0.1:{port}{path}").status_code
    except httpx.TransportError:
        return None
