"""Reading a request's body within bounds."""

import anyio
from starlette.requests import ClientDisconnect, Request

from ws_server.http.errors import Problem

_BODY_S = 10.0


async def read_body(request: Request, *, max_bytes: int) -> bytes:
    """Raises Problem when it is too long or too slow."""
    body = bytearray()
    try:
        with anyio.fail_after(_BODY_S):
            async for part in request.stream():
                body += part
                if len(body) > max_bytes:
                    raise Problem(413, "message_too_long", f"the body has more than {max_bytes} bytes")
    except TimeoutError:
        raise Problem(408, "bad_message", "the body didn't arrive in time") from None
    except ClientDisconnect:
        raise Problem(400, "bad_message", "the body ended early") from None
    return bytes(body)
