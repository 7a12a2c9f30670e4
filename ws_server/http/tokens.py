"""`POST /v1/tokens`: a back end asks for what lets a page of its own open one connection."""

import time

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ws_server.http.access import caller, from_known_page, services_of
from ws_server.http.bodies import read_body
from ws_server.http.errors import Problem
from ws_server.tokens import TokenLimits

_MAX_BODY_BYTES = 4096


async def make_token(request: Request) -> Response:
    from_known_page(request)
    identity = caller(request)
    limits = _limits(await read_body(request, max_bytes=_MAX_BODY_BYTES))
    tokens = services_of(request).auth.tokens
    token = tokens.make(identity.name, limits, time.monotonic())
    return JSONResponse({"token": token, "expires_s": tokens.expires_s}, 201, {"cache-control": "no-store"})


def _limits(body: bytes) -> TokenLimits:
    if not body.strip():
        return TokenLimits()
    try:
        return msgspec.json.decode(body, type=TokenLimits)
    except msgspec.ValidationError as error:
        raise Problem(422, "invalid_option", str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Problem(400, "bad_message", "the body isn't a JSON object") from None
