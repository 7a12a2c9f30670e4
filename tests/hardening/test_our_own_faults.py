"""A fault of the server itself ends one connection, says so, and leaves the rest as it is."""

from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from protocol.messages import Done, End, Open, Ping, Pong, Text
from tests.ws_server.running import running
from ws_server.catalogue import Catalogue


class BrokenCatalogue:
    """Fails in a way that nobody foresaw, for one voice."""

    def __init__(self, real: Catalogue) -> None:
        self._real = real

    def resolve(self, opened: Open, identity: Any) -> Any:
        if opened.voice == "a3":
            raise RuntimeError("nobody foresaw this")
        return self._real.resolve(opened, identity)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


async def test_it_closes_that_connection_with_1011_and_frees_all_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running() as server:
        server.services.catalogue = BrokenCatalogue(server.services.catalogue)  # type: ignore[assignment]
        async with server.speak() as other, server.speak() as client:
            await other.receive()
            await client.receive()
            await client.send(Open(id="a"), Text(id="a", text="One two three."), Open(id="b", voice="a3"))
            with pytest.raises(ConnectionClosed):
                await client.receive_until(Done, 3)
            assert client.socket.close_code == 1011
            await other.send(Ping(t=1))
            assert await other.receive() == Pong(t=1)
            await other.send(Open(id="a"), Text(id="a", text="One."), End(id="a"))
            assert (await other.receive_done()).reason == "complete"
            assert server.services.dispatcher.open_listeners == 0
            assert server.services.quotas.of("open").streams == 0
        assert "nobody foresaw this" in caplog.text
