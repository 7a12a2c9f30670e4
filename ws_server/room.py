"""Whether one more connection may come in: a socket, or a request that speaks."""

import time

from ws_server.http.errors import Busy, Problem
from ws_server.services import Services


def require_room(services: Services) -> None:
    """Raises Busy while the server is about to stop, not ready, or has as many connections as it may."""
    sessions = services.sessions
    if sessions.drain_deadline_s is not None:
        wait_s = max(1.0, sessions.drain_deadline_s - time.monotonic())
        raise Busy("shutting_down", "the server is about to stop", wait_s)
    reason = services.unready_reason()
    if reason is not None:
        raise Busy("engine_unavailable", f"not ready: {reason}", 2.0)
    if sessions.full:
        raise Busy("busy", "too many connections", max(1.0, services.dispatcher.retry_after_s()))


def require_quota(services: Services, key: str, *, spend: bool) -> None:
    """What a key may open in a minute. Raises Problem; `spend`: this is one."""
    now_s = time.monotonic()
    quota = services.quotas.of(key)
    wait_s = quota.connection_wait_s(now_s)
    if wait_s > 0:
        services.metrics.rate_limited(key)
        raise Problem(429, "rate_limited", "this key has opened too many connections", retry_after_s=wait_s)
    if spend:
        quota.take_connection(now_s)
