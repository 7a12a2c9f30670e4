"""The same over TLS, with a certificate made here."""

import ssl
import subprocess
from pathlib import Path

import anyio
import pytest
from websockets.asyncio.client import connect
from websockets.typing import Origin

from protocol.messages import Audio, Done, End, Hello, Open, Text
from tests.ws_server.running import Speaker, running
from tests.ws_server.test_transport import receive_to_end


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(
        [*make.split(), *names, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True
    )
    return cert, key


async def test_it_speaks_over_tls(certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    trust = ssl.create_default_context(cafile=cert)
    async with running(tls_cert=cert, tls_key=key) as server:
        url = server.url.replace("ws://", "wss://")
        origin = Origin(f"https://127.0.0.1:{server.port}")
        async with connect(url, ssl=trust, origin=origin, compression=None) as socket:
            client = Speaker(socket)
            assert isinstance(await client.receive(), Hello)
            await client.send(Open(id="a"), Text(id="a", text="Hello there."), End(id="a"))
            messages = await client.receive_until(Done)
            assert any(isinstance(message, Audio) for message in messages)


async def test_whatever_is_agreed_on_hides_what_is_said_later_too(certificate: tuple[Path, Path]) -> None:
    """Keys of the moment, so that the certificate's own key, once lost, opens nothing that was recorded before."""
    cert, key = certificate
    async with running(tls_cert=cert, tls_key=key) as server:
        context = server.context
    assert context is not None
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    for cipher in context.get_ciphers():
        assert cipher["kea"] in {"kx-any", "kx-ecdhe", "kx-dhe"}, cipher["name"]
        assert cipher["auth"] != "auth-null", cipher["name"]
        assert cipher["strength_bits"] >= 128, cipher["name"]


async def test_a_client_that_speaks_plainly_to_a_tls_port_is_dropped(certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    async with (
        running(tls_cert=cert, tls_key=key) as server,
        await anyio.connect_tcp("127.0.0.1", server.port) as stream,
    ):
        await stream.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with anyio.fail_after(10):
            assert b"HTTP" not in await receive_to_end(stream)
