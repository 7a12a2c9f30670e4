"""What goes wrong over HTTP, and the one table that turns it into a status and a code of the wire page.

Problem                 any status and code
└── Busy                503 with a computed Retry-After
auth.Unauthorized       401
auth.Forbidden          403
anything else           500 internal, logged, its text kept from the client
"""

import logging
import math
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse

from engines.contract import EngineUnavailable
from protocol.errors import ErrorCode
from residency.errors import EngineStalled
from voices.errors import NotReadable, StoreFailed, TooLarge, Unusable, VoiceBroken, VoiceMissing
from ws_server.auth import Forbidden, Unauthorized
from ws_server.http.access import peer_of, services_of
from ws_server.plan import Refusal
from ws_server.services import Services


class Problem(Exception):  # noqa: N818 - named by situation
    """A refusal that is ready to be sent."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.retry_after_s = retry_after_s

    def body(self) -> dict[str, Any]:
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.param is not None:
            error["param"] = self.param
        if self.retry_after_s is not None:
            error["retry_after_ms"] = math.ceil(self.retry_after_s * 1000)
        return {"error": error}

    def response(self) -> JSONResponse:
        headers = {"cache-control": "no-store"}
        if self.retry_after_s is not None:
            headers["retry-after"] = str(math.ceil(self.retry_after_s))
        if self.status == 401:
            headers["www-authenticate"] = "Bearer"
        return JSONResponse(self.body(), self.status, headers)


class Busy(Problem):
    def __init__(self, code: str, message: str, retry_after_s: float) -> None:
        super().__init__(503, code, message, retry_after_s=retry_after_s)


TABLE: dict[type[Exception], tuple[int, str]] = {
    Unauthorized: (401, "unauthorized"),
    Forbidden: (403, "forbidden"),
    EngineUnavailable: (503, "engine_unavailable"),
    EngineStalled: (503, "engine_stalled"),
    NotReadable: (415, "unsupported_format"),
    TooLarge: (413, "message_too_long"),
    Unusable: (422, "invalid_option"),
    VoiceMissing: (404, "unknown_voice"),
    VoiceBroken: (410, "unknown_voice"),
    StoreFailed: (507, "internal"),
}
REFUSALS: dict[ErrorCode, int] = {
    "unknown_engine": 404,
    "unknown_voice": 404,
    "busy": 503,
    "engine_unavailable": 503,
    "shutting_down": 503,
    "rate_limited": 429,
    "text_too_long": 413,
}
"""The others are 422: the request was understood, and can't be served as it is."""
KEPT_OUT = frozenset({401, 403, 429, 503})


def describe(error: Exception) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, Refusal):
        status = REFUSALS.get(error.code, 422)
        return Problem(status, error.code, str(error), param=error.param, retry_after_s=error.retry_after_s)
    for kind, (status, code) in TABLE.items():
        if isinstance(error, kind):
            return Problem(status, code, str(error), param=getattr(error, "param", None))
    logging.getLogger(__name__).error("an endpoint failed", exc_info=error)
    return Problem(500, "internal", "the server made a mistake; its log has more")


def note_kept_out(services: Services, scope: Mapping[str, Any], problem: Problem) -> None:
    """Counted and logged; what was merely wrong isn't."""
    if problem.status in KEPT_OUT:
        services.observer.request_refused(peer_of(scope), scope["path"], problem.status, problem.code)


async def respond(request: Request, error: Exception) -> JSONResponse:
    """Starlette's exception handler for every kind."""
    problem = describe(error)
    note_kept_out(services_of(request), request.scope, problem)
    return problem.response()
