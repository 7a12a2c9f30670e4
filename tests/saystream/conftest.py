"""A fake server on a real socket."""

import socket
from collections.abc import AsyncIterator

import pytest

from tests.fakes.server import FakeServer, running


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with running(FakeServer()) as started:
        yield started


@pytest.fixture
def unused_port() -> int:
    return free_port()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
