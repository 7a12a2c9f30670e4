"""`/v1/engines`: what can speak, and in which state it is."""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from residency.units import UnitStatus
from ws_server.catalogue import Entry
from ws_server.http.access import services_of
from ws_server.services import Services


async def list_engines(request: Request) -> Response:
    rows = engine_rows(services_of(request))
    return JSONResponse({"engines": rows}, headers={"cache-control": "no-store"})


def engine_rows(services: Services) -> list[dict[str, Any]]:
    return [_row(services, entry) for entry in services.catalogue.entries()]


def _row(services: Services, entry: Entry) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": entry.name,
        "installed": entry.installed,
        "languages": list(entry.info.languages),
        "voices": [voice.voice_id for voice in entry.info.voices],
        "clones": sorted(entry.info.clones),
    }
    if not entry.installed and entry.info.extra is not None:
        row["missing_extra"] = entry.info.extra
    if entry.facts is None:
        return row | {"state": "failed", "resident": False, "in_flight": 0, "last_error": entry.problem}
    return row | _figures(services.dispatcher.status(entry.name))


def _figures(status: UnitStatus) -> dict[str, Any]:
    facts = status.facts
    figures: dict[str, Any] = {
        "state": status.state,
        "resident": status.state == "ready",
        "checkpoint": facts.checkpoint,
        "device": status.device,
        "sample_rate_hz": facts.sample_rate_hz,
        "streams": facts.step_s is not None,
        "batches": facts.max_batch > 1,
        "realtime": status.realtime,
        "in_flight": status.in_flight,
    }
    if status.cost:
        figures["speed_x_realtime"] = round(1 / status.cost, 2)
    if status.last_error is not None:
        figures["last_error"] = status.last_error
    return figures
