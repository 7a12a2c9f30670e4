"""Who may call an endpoint: its role, and for what changes something the page that it was called from."""

from starlette.requests import Request

from ws_server.auth import Forbidden, Identity
from ws_server.services import Services


def services_of(request: Request) -> Services:
    services = request.app.state.services
    assert isinstance(services, Services)  # noqa: S101 - create_app put it there
    return services


def caller(request: Request) -> Identity:
    """Raises Unauthorized."""
    return services_of(request).auth.identify(request.headers.get("authorization"))


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
