"""Who may call an endpoint: its role, and for what changes something the page that it was called from."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from ws_server.auth import Forbidden, Identity
from ws_server.services import Services


def services_of(request: Request) -> Services:
    services = request.app.state.services
    assert isinstance(services, Services)  # noqa: S101 - create_app put it there
    return services


def peer_of(scope: Mapping[str, Any]) -> str:
    client = scope.get("client")
    return f"{client[0]}:{client[1]}" if client else "local"


def caller(request: Request) -> Identity:
    """Raises Unauthorized, or Forbidden for a page that calls this server by a name of its own (DNS rebinding): a
    browser takes it for the server's own page and sends no Origin.
    """
    services = services_of(request)
    if not services.origins.knows_host(request.headers.get("host")):
        raise Forbidden("this server isn't called by this host name; the setting hosts lists more")
    return services.auth.identify(request.headers.get("authorization"))


def shows_a_key(request: Request) -> bool:
    """Raises Unauthorized for a wrong one, and Forbidden."""
    if "authorization" not in request.headers and services_of(request).auth.keyed:
        return False
    caller(request)
    return True


def admin(request: Request) -> Identity:
    """Raises Unauthorized or Forbidden."""
    identity = caller(request)
    if identity.role != "admin":
        raise Forbidden("this needs a key with the role admin")
    return identity


def from_known_page(request: Request) -> None:
    """For every request that changes something. Raises Forbidden."""
    origins = services_of(request).origins
    if not origins.allows(request.headers.get("origin"), request.headers.get("host")):
        raise Forbidden("pages from this origin, or by this host name, may not use this server")
