"""How the process is: for a supervisor, a balancer, a person and Prometheus."""

import time
from pathlib import Path
from typing import Any

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ws_server.http.access import admin, services_of
from ws_server.http.engines import engine_rows
from ws_server.http.errors import Busy
from ws_server.metrics import CONTENT_TYPE
from ws_server.services import Services

_NO_STORE = {"cache-control": "no-store"}
_STATM = Path("/proc/self/statm")
_PAGE_BYTES = 4096


async def livez(request: Request) -> Response:
    """A supervisor restarts what answers 503: a lane that hangs can't be mended from inside."""
    if services_of(request).dispatcher.wedged:
        raise Busy("engine_stalled", "an engine step hasn't come back", 1.0)
    return JSONResponse({"status": "ok"}, headers=_NO_STORE)


async def readyz(request: Request) -> Response:
    """A balancer sends no new work to what answers 503. Being full isn't a reason."""
    reason = services_of(request).unready_reason()
    if reason is not None:
        # Anyone may ask; why a load failed, which may name folders, is in the log and in /health.
        reason = reason.partition(": ")[0]
        return JSONResponse({"reason": reason}, 503, {**_NO_STORE, "retry-after": "1"})
    return JSONResponse({"status": "ok"}, headers=_NO_STORE)


async def health(request: Request) -> Response:
    admin(request)
    services = services_of(request)
    memory = {"resident_bytes": await to_thread.run_sync(_resident_bytes)}
    return JSONResponse(_health(services, memory), headers=_NO_STORE)


async def metrics(request: Request) -> Response:
    admin(request)
    return Response(services_of(request).metrics.text(), headers={**_NO_STORE, "content-type": CONTENT_TYPE})


def _health(services: Services, memory: dict[str, Any]) -> dict[str, Any]:
    dispatcher = services.dispatcher
    reason = services.unready_reason()
    return {
        "status": "ok" if reason is None else "unready",
        **({} if reason is None else {"reason": reason}),
        "version": services.version,
        "replica": services.settings.replica,
        "uptime_s": round(time.monotonic() - services.started_s, 3),
        "in_flight": dispatcher.in_flight,
        "queued": dispatcher.queued,
        "max_streams": dispatcher.max_streams,
        "load": round(dispatcher.load, 4),
        "connections": len(services.sessions),
        "draining": services.sessions.draining,
        "device": services.device,
        "memory": memory,
        "engines": engine_rows(services),
        "voices": len(services.catalogue.voices()),
        "cache": {
            "entries": services.cache.entries,
            "bytes": services.cache.disk_bytes or services.cache.memory_bytes,
            "hits": services.cache.counters.hits,
            "misses": services.cache.counters.misses,
        },
    }


def _resident_bytes() -> int | None:
    """None where the system doesn't say."""
    try:
        return int(_STATM.read_text(encoding="ascii").split()[1]) * _PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return None
