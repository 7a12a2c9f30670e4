"""`/v1/speak`: the handshake with its refusals, then one reader and one writer for each socket."""

import json
import math
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

import anyio
from anyio.lowlevel import checkpoint

from protocol.codec import Codec, select_subprotocol
from protocol.errors import BadMessage
from protocol.messages import Open
from ws_server.auth import Forbidden, Identity
from ws_server.http.access import peer_of
from ws_server.http.errors import Busy, Problem, describe, note_kept_out
from ws_server.room import require_quota, require_room
from ws_server.services import Services
from ws_server.session import CloseConnection, Session

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MESSAGES_A_TURN = 16
BYTES_A_TURN = 4096
"""A flood from one client lets the others have the loop after so many messages, or bytes."""
LAST_WORDS_S = 2.0
# Anyone may read why a socket was refused: nothing in the answer is secret, and a page has no other way to know.
_READABLE_ANYWHERE = [(b"access-control-allow-origin", b"*"), (b"cache-control", b"no-store")]


@dataclass(frozen=True, slots=True)
class Accepted:
    identity: Identity
    codec: Codec
    subprotocol: str | None


class SpeakEndpoint:
    """A raw ASGI application for both kinds of request: nothing stands between a frame and the socket."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._explain(scope, send)
        else:
            await self._speak(scope, receive, send)

    async def _explain(self, scope: Scope, send: Send) -> None:
        """Tell a plain GET what an upgrade would get."""
        problem = Problem(426, "upgrade_required", "this address speaks WebSocket")
        extra = [(b"upgrade", b"websocket"), (b"connection", b"upgrade")]
        try:
            self._admit(scope, spend=False)
        except Exception as error:  # noqa: BLE001 - the table of errors, which knows the unknown too
            problem, extra = describe(error), []
            note_kept_out(self._services, scope, problem)
        await _answer(send, "http.response", problem, extra)

    async def _speak(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        peer = peer_of(scope)
        try:
            accepted = self._admit(scope, spend=True)
        except Exception as error:  # noqa: BLE001 - the table of errors, which knows the unknown too
            problem = describe(error)
            self._services.observer.connection_refused(peer, problem.status, problem.code)
            await _answer(send, "websocket.http.response", problem, [])
            return
        await self._services.learn_voice(accepted.identity.limits.voice)
        session = Session(self._services, accepted.identity, peer=peer)
        observer = self._services.observer
        observer.connection_opened(session.name, peer, accepted.identity.name)
        opened_s = time.monotonic()
        ending = _Ending()
        message_bytes = self._services.limits.message_bytes
        try:
            async with session:
                await send({"type": "websocket.accept", "subprotocol": accepted.subprotocol})
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_write, session, accepted.codec, send, ending, tasks.cancel_scope)
                    learn_voice = self._services.learn_voice
                    await _read(session, accepted.codec, receive, ending, learn_voice, message_bytes)
                    tasks.cancel_scope.cancel()
        except OSError:
            pass  # uvicorn's ClientDisconnected: an ordinary event
        except Exception as error:  # noqa: BLE001 - one connection's fault stays its own
            self._services.log.fault("a session failed", exception=error, session=session.name)
            ending.code = 1011
            with suppress(OSError):
                await send({"type": "websocket.close", "code": 1011, "reason": "a fault of the server"})
        finally:
            observer.connection_closed(
                session.name, peer, lasted_s=time.monotonic() - opened_s, code=ending.code
            )

    def _admit(self, scope: Scope, *, spend: bool) -> Accepted:
        """Decide on a handshake; raises what `describe` turns into a refusal."""
        headers = _headers(scope)
        services = self._services
        if not services.origins.allows(headers.get(b"origin"), headers.get(b"host")):
            raise Forbidden("pages from this origin, or by this host name, may not use this server")
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [None])[-1]
        authorization = headers.get(b"authorization")
        now_s = time.monotonic()
        caller = services.auth.identify_socket(authorization, token, now_s, spend=False)
        offered = _offered(scope, headers)
        codec = select_subprotocol(offered)
        if codec is None:
            raise Problem(
                400, "bad_message", "none of the sub-protocols offered is known", param="subprotocol"
            )
        require_room(services)
        dispatcher = services.dispatcher
        if services.settings.refuse_when_full and dispatcher.full():
            raise Busy("busy", "no slot and no place in the queue", dispatcher.retry_after_s())
        require_quota(services, caller.name, spend=False)
        identity = services.auth.identify_socket(authorization, token, now_s, spend=spend)
        if spend:
            require_quota(services, caller.name, spend=True)
        return Accepted(identity, codec, codec.subprotocol if offered else None)


@dataclass(slots=True)
class _Ending:
    code: int | None = None


async def _read(  # noqa: PLR0917 - all that one connection has
    session: Session,
    codec: Codec,
    receive: Receive,
    ending: _Ending,
    learn_voice: Callable[[str | None], Awaitable[None]],
    message_bytes: int,
) -> None:
    """Until the client is gone. Waits for the client alone, and for a look at the disk where it names a voice that
    isn't known here.
    """
    taken_bytes = 0
    while True:
        event = await receive()
        if event["type"] == "websocket.disconnect":
            if ending.code is None:
                ending.code = event.get("code")
            return
        if session.closing:
            # The writer ends this as soon as its last words are out, but doesn't wait for one who never reads them.
            await anyio.sleep(LAST_WORDS_S)
            return
        data = event.get("bytes")
        data = event["text"] if data is None else data
        try:
            message = codec.decode_client(data, message_bytes=message_bytes)
        except BadMessage as error:
            session.receive_bad(error)
        else:
            if isinstance(message, Open):
                await learn_voice(message.voice)
            session.receive(message)
        taken_bytes += len(data) + BYTES_A_TURN // MESSAGES_A_TURN
        if taken_bytes >= BYTES_A_TURN:
            taken_bytes = 0
            await checkpoint()


async def _write(
    session: Session, codec: Codec, send: Send, ending: _Ending, scope: anyio.CancelScope
) -> None:
    """Until the session is over or the client is gone; then nobody needs to read any more."""
    kind = "text" if codec.text_frames else "bytes"
    try:
        while True:
            message = await session.next()
            if isinstance(message, CloseConnection):
                ending.code = message.code
                await send({"type": "websocket.close", "code": message.code, "reason": message.reason})
                return
            data = codec.encode_server(message)
            session.blocked(True)
            await send({"type": "websocket.send", kind: data})
            session.blocked(False)
            session.sent(message)
    except OSError:
        return  # uvicorn's ClientDisconnected: an ordinary event
    finally:
        scope.cancel()


def _headers(scope: Scope) -> dict[bytes, str]:
    return {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}


def _offered(scope: Scope, headers: dict[bytes, str]) -> list[str]:
    if scope["type"] == "websocket":
        return [str(name) for name in scope["subprotocols"]]
    line = headers.get(b"sec-websocket-protocol", "")
    return [name.strip() for name in line.split(",") if name.strip()]


async def _answer(send: Send, kind: str, problem: Problem, extra: list[tuple[bytes, bytes]]) -> None:
    body = json.dumps(problem.body()).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *_READABLE_ANYWHERE,
        *extra,
    ]
    if problem.retry_after_s is not None:
        headers.append((b"retry-after", str(math.ceil(problem.retry_after_s)).encode()))
    if problem.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": f"{kind}.start", "status": problem.status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})
