"""`POST /drain`: end well."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ws_server.http.access import admin, from_known_page, services_of


async def start_drain(request: Request) -> Response:
    from_known_page(request)
    admin(request)
    services = services_of(request)
    services.drain()
    return JSONResponse({"draining": True, "deadline_s": services.settings.drain_s}, 202)
