"""The page that speaks live and the browser client: read once, served from memory."""

import hashlib
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import web_demo

Endpoint = Callable[[Request], Awaitable[Response]]


def page_routes() -> list[Route]:
    return [
        Route(path, _endpoint(path, kind, body), methods=["GET"], include_in_schema=False)
        for path, (kind, body) in web_demo.files().items()
    ]


def _endpoint(path: str, content_type: str, body: bytes) -> Endpoint:
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {
        "content-type": content_type,
        "content-security-policy": web_demo.CONTENT_SECURITY_POLICY,
        "referrer-policy": "no-referrer",
        "cache-control": "no-cache",
        "etag": tag,
    }
    if path in web_demo.SHARED_PATHS:
        headers["access-control-allow-origin"] = "*"

    async def serve_file(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers)

    return serve_file
