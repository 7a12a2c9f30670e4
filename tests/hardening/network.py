"""A bad network: a namespace of its own behind a link that is shaped or cut. Needs root and iproute2."""

import ctypes
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

_NEW_NETWORK = 0x4000_0000
"""CLONE_NEWNET of setns(2)."""


class NotPermittedError(Exception):
    """This system doesn't allow it, or lacks a part of it; the message says which."""


@dataclass(frozen=True, slots=True)
class Network:
    name: str
    server_host: str
    """Where a server outside can be reached from inside."""

    def socket(self) -> socket.socket:
        """A client's, on the far side of the link."""
        made: list[socket.socket] = []

        def make() -> None:
            # A thread enters the namespace and ends there; the socket stays in it.
            with Path(f"/run/netns/{self.name}").open(encoding="ascii") as namespace:
                libc = ctypes.CDLL(None, use_errno=True)
                if libc.setns(namespace.fileno(), _NEW_NETWORK) == 0:
                    made.append(socket.socket())

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        if not made:
            raise NotPermittedError("setns isn't permitted")
        made[0].setblocking(False)
        return made[0]

    def cut(self) -> None:
        """As if the cable had been pulled: neither side learns of it."""
        _run("ip", "link", "set", self.name, "down")


@contextmanager
def network(*shape: str) -> Iterator[Network]:
    """`shape`: a queueing discipline of tc for what the server sends. Skips the test where it isn't permitted."""
    number = os.getpid() % 250
    name, inner = f"saytest{number}", f"sayin{number}"
    server_host, client_host = f"10.231.{number}.1", f"10.231.{number}.2"
    try:
        _run("ip", "netns", "add", name)
    except NotPermittedError as error:
        pytest.skip(f"no namespace: {error}")
    try:
        _run("ip", "link", "add", name, "type", "veth", "peer", "name", inner)
        _run("ip", "link", "set", inner, "netns", name)
        _run("ip", "addr", "add", f"{server_host}/30", "dev", name)
        _run("ip", "link", "set", name, "up")
        _run("ip", "-n", name, "addr", "add", f"{client_host}/30", "dev", inner)
        _run("ip", "-n", name, "link", "set", inner, "up")
        if shape:
            _run("tc", "qdisc", "add", "dev", name, "root", *shape)
        yield Network(name, server_host)
    except NotPermittedError as error:
        pytest.skip(f"no such network: {error}")
    finally:
        for command in (("ip", "link", "del", name), ("ip", "netns", "del", name)):
            subprocess.run(command, check=False, capture_output=True)


def _run(program: str, *arguments: str) -> None:
    if os.geteuid() != 0:
        raise NotPermittedError("it needs root")
    if shutil.which(program) is None:
        raise NotPermittedError(f"{program} isn't installed")
    result = subprocess.run((program, *arguments), check=False, capture_output=True, text=True)
    if result.returncode != 0:
        raise NotPermittedError(f"{program} {' '.join(arguments)}: {result.stderr.strip()}")
