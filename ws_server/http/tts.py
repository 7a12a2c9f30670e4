"""`POST /v1/tts` and `/v1/tts/stream`: one text, through the same session as a socket's."""

import math
import time
from collections.abc import Mapping
from typing import cast

import anyio
from anyio.lowlevel import checkpoint
from starlette.requests import Request

from protocol import messages as wire
from protocol.errors import ErrorCode
from residency.loads import RELOAD_S
from ws_server.http.access import caller, from_known_page, peer_of, services_of
from ws_server.http.bodies import read_body
from ws_server.http.errors import REFUSALS, Problem
from ws_server.http.tts_bodies import Response, Streamed, Whole, body_of
from ws_server.http.tts_order import ID, Order, read_order
from ws_server.room import require_quota, require_room
from ws_server.services import Services
from ws_server.session import CloseConnection, Session
from ws_server.speak import Receive, Scope, Send

STATUSES: Mapping[ErrorCode, int] = {
    **REFUSALS,
    "busy": 429,
    "engine_failed": 500,
    "engine_stalled": 503,
    "internal": 500,
}
"""The others are 422."""
_GONE = 499
"""In the log: the client didn't wait for the answer."""


class Tts:
    """A raw ASGI application. When a client is gone, or its time is over, nothing more is made for it."""

    def __init__(self, *, streamed: bool) -> None:
        self._streamed = streamed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        from_known_page(request)
        identity = caller(request)
        services = services_of(request)
        require_room(services)
        # Streamed it is for a listener, whose reading holds it up; whole it is a rendering, and lets listeners pass.
        lead_ms = services.limits.lead_ms if self._streamed else 0
        body = await read_body(request, max_bytes=services.limits.message_bytes)
        order = read_order(body, services.limits, lead_ms=lead_ms)
        await services.learn_voice(order.opened.voice)
        require_quota(services, identity.name, spend=True)
        await services.learn_voice(order.opened.voice)
        session = Session(services, identity, peer=peer_of(scope), caps=order.caps)
        response = Response(send, services.settings.stalled_reader_s)
        observer, opened_s, status = services.observer, time.monotonic(), _GONE
        observer.connection_opened(session.name, session.peer, identity.name)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_leave_when_gone, receive, tasks.cancel_scope)
                problem = await self._serve(services, session, order, response)
                status = 200 if problem is None else problem.status
                if problem is not None and not response.begun:
                    await problem.response()(scope, receive, send)
                # Begun and gone wrong, the answer is left without its end: the connection is cut.
                tasks.cancel_scope.cancel()
        finally:
            lasted_s = time.monotonic() - opened_s
            observer.connection_closed(session.name, session.peer, lasted_s=lasted_s, code=status)

    async def _serve(
        self, services: Services, session: Session, order: Order, response: Response
    ) -> Problem | None:
        """What went wrong, if something did; nothing is being made for it any more."""
        async with session, body_of(response, streamed=self._streamed) as body:
            try:
                problem = await self._speak(services, session, order, body)
                if problem is None:
                    await body.finish()
            except TimeoutError:
                return Problem(408, "timeout", "nothing was read for too long")
        return problem

    async def _speak(
        self, services: Services, session: Session, order: Order, body: Streamed | Whole
    ) -> Problem | None:
        limit_s = math.inf if self._streamed else services.settings.tts_s
        problem: Problem | None = None
        with anyio.move_on_after(limit_s) as time_limit:
            await _say(session, order)
            problem = await _relay(services, session, body)
        if time_limit.cancelled_caught:
            return Problem(504, "timeout", f"it wasn't made within {limit_s:g} s")
        return problem


async def _leave_when_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _say(session: Session, order: Order) -> None:
    session.receive(order.opened)
    session.receive(wire.Text(id=ID, text=order.text))
    session.receive(wire.End(id=ID))
    # Until as much is cut as is cut ahead: then it is known, too, how much of it is stored.
    while (utterance := session.utterance(ID)) is not None and utterance.is_reading:
        await checkpoint()


async def _relay(services: Services, session: Session, body: Streamed | Whole) -> Problem | None:
    """Until its end; what went wrong, if something did."""
    problem: Problem | None = None
    utterance = session.utterance(ID)
    while True:
        match message := await session.next():
            case wire.Audio(pcm=pcm):
                session.blocked(True)
                await body.add(pcm)
                session.blocked(False)
                session.sent(message)
                await checkpoint()
            case wire.Started() if utterance is not None:
                await body.begin(message, utterance.tally)
            case wire.Error():
                problem = problem_of(services, message)
            case wire.Done(samples=samples):
                if problem is None and not samples:
                    return Problem(422, "invalid_option", "text: there is nothing to speak", param="text")
                return problem
            case CloseConnection(reason=reason):
                return problem or Problem(503, "shutting_down", reason, retry_after_s=1.0)
            case _:
                pass


def problem_of(services: Services, error: wire.Error) -> Problem:
    """The wire's error as an HTTP answer."""
    status = STATUSES.get(cast("ErrorCode", error.code), 422)
    return Problem(
        status,
        error.code,
        error.message,
        param=error.param,
        retry_after_s=_retry_after_s(services, error) if status in (429, 503) else None,
    )


def _retry_after_s(services: Services, error: wire.Error) -> float:
    if error.retry_after_ms is not None:
        return error.retry_after_ms / 1000
    drain_s = services.sessions.drain_deadline_s
    if drain_s is not None:
        return max(1.0, drain_s - time.monotonic())
    return RELOAD_S if error.code == "engine_unavailable" else max(1.0, services.dispatcher.retry_after_s())
