"""Gets a connection to a server, or says clearly why not."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI
from websockets.typing import Subprotocol

from protocol.codec import JSON, MSGPACK, Codec
from protocol.limits import TRANSPORT_MESSAGE_BYTES
from saystream.address import Address
from saystream.connection import Connection
from saystream.errors import CannotConnect, HandshakeRefused
from saystream.utterance import LineDown

_CLOSE_S = 2.0


@dataclass(frozen=True, slots=True)
class Access:
    address: Address
    key: str | None = field(repr=False)
    token: str | Callable[[], Awaitable[str]] | None = field(repr=False)
    ssl: SSLContext | None
    json: bool
    connect_s: float


async def dial(access: Access) -> Connection:
    """One attempt, up to and with the server's `hello`. Raises CannotConnect, HandshakeRefused."""
    codec = JSON if access.json else MSGPACK
    try:
        async with asyncio.timeout(access.connect_s):
            socket = await _upgrade(access, codec)
            connection = Connection(socket, codec)
            try:
                await connection.greet()
            except BaseException:
                socket.transport.abort()
                raise
            return connection
    except InvalidStatus as refused:
        raise _refusal(refused) from None
    except (OSError, TimeoutError, InvalidHandshake, InvalidURI, LineDown) as error:
        reason = str(error) or type(error).__name__
        raise CannotConnect(f"no connection to {access.address.socket_url}: {reason}") from error


async def _upgrade(access: Access, codec: Codec) -> ClientConnection:
    token = await access.token() if callable(access.token) else access.token
    extra: dict[str, Any] = {} if access.ssl is None else {"ssl": access.ssl}
    return await connect(
        access.address.with_token(token),
        subprotocols=[Subprotocol(codec.subprotocol)],
        additional_headers={} if access.key is None else {"Authorization": f"Bearer {access.key}"},
        compression=None,  # PCM doesn't shrink
        open_timeout=None,  # dial's own bound holds for all of it
        close_timeout=_CLOSE_S,
        max_size=TRANSPORT_MESSAGE_BYTES,
        **extra,
    )


def _refusal(refused: InvalidStatus) -> HandshakeRefused:
    response = refused.response
    try:
        error = json.loads(response.body or b"")["error"]
        code, message = str(error["code"]), str(error["message"])
        retry_after_ms = error.get("retry_after_ms")
    except (ValueError, KeyError, TypeError, AttributeError):  # not saystream's own: a proxy, another server
        code, message, retry_after_ms = "http", response.reason_phrase or "refused", None
    retry_after_s = None if retry_after_ms is None else retry_after_ms / 1000
    header = response.headers.get("Retry-After", "")
    if retry_after_s is None and header.isdigit():
        retry_after_s = float(header)
    return HandshakeRefused(response.status_code, code, message, retry_after_s)
