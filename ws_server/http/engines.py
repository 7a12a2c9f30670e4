"""`/v1/engines`: what can speak, in which state it is, and what an operator can do about it."""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from engines import downloads
from engines.contract import EngineUnavailable
from engines.downloads import Download
from residency.units import UnitStatus
from ws_server.entries import Entry
from ws_server.http.access import admin, from_known_page, services_of, shows_a_key
from ws_server.http.errors import Problem
from ws_server.services import Services


async def list_engines(request: Request) -> Response:
    rows = engine_rows(services_of(request))
    if not shows_a_key(request):
        # Why something failed names folders of this machine.
        for row in rows:
            row.pop("last_error", None)
    return JSONResponse({"engines": rows}, headers={"cache-control": "no-store"})


class EngineVerb:
    """POST /v1/engines/{name}/VERB. Answers with the engine's row as it is afterwards."""

    def __init__(self, act: Callable[[Request, Services, str], Awaitable[None]]) -> None:
        self._act = act

    async def answer(self, request: Request) -> Response:
        from_known_page(request)
        identity = admin(request)
        services = services_of(request)
        entry = services.catalogue.entry(request.path_params["name"])
        if entry.facts is None:
            raise EngineUnavailable(entry.problem or f"{entry.name} can't be used")
        await self._act(request, services, entry.name)
        services.log.info("engine changed", engine=entry.name, by=request.url.path, key=identity.name)
        return JSONResponse(_row(services, entry), headers={"cache-control": "no-store"})


async def load(_request: Request, services: Services, name: str) -> None:
    await services.dispatcher.loaded(name)


async def unload(request: Request, services: Services, name: str) -> None:
    """With `drain`, what is being spoken is spoken to its end, and the answer doesn't wait for it."""
    drain = request.query_params.get("drain", "false")
    if drain not in {"true", "false"}:
        raise Problem(422, "invalid_option", "drain is true or false", param="drain")
    status = services.dispatcher.status(name)
    if status.policy != "UNPINNED":
        raise Problem(409, "conflict", f"{name} is pinned ({status.policy}); unpin it first")
    if drain == "true":
        services.dispatcher.unload(name)
        return
    if status.in_flight or status.state in {"loading", "draining"}:
        why = f"{status.in_flight} utterances are in flight" if status.in_flight else f"it is {status.state}"
        raise Problem(409, "busy", f"{name}: {why}; ?drain=true unloads it when nothing is left to do")
    await services.dispatcher.unloaded(name)


async def pin(_request: Request, services: Services, name: str) -> None:
    """It is loaded and stays."""
    async with services.pinning[name]:
        before = services.dispatcher.policy(name)
        services.dispatcher.set_policy(name, "HARD_PIN")
        try:
            await services.dispatcher.loaded(name)
        except BaseException:
            services.dispatcher.set_policy(name, before)
            raise


async def unpin(_request: Request, services: Services, name: str) -> None:
    services.dispatcher.set_policy(name, "UNPINNED")


VERBS = {verb.__name__: EngineVerb(verb) for verb in (load, unload, pin, unpin)}


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
    if fetching := downloads.of(entry.name):
        row["download"] = _download(fetching[-1])
    if not entry.installed and entry.info.extra is not None:
        row["missing_extra"] = entry.info.extra
    if entry.facts is None:
        return row | {"state": "failed", "resident": False, "in_flight": 0, "last_error": entry.problem}
    return row | _figures(services.dispatcher.status(entry.name))


def _download(download: Download) -> dict[str, Any]:
    told: dict[str, Any] = {"file": download.file, "done_bytes": download.done_bytes}
    return told if download.total_bytes is None else told | {"total_bytes": download.total_bytes}


def _figures(status: UnitStatus) -> dict[str, Any]:
    facts = status.facts
    figures: dict[str, Any] = {
        "state": status.state,
        "healthy": status.healthy,
        "resident": status.state in {"ready", "draining"},
        "checkpoint": facts.checkpoint,
        "device": status.device,
        "sample_rate_hz": facts.sample_rate_hz,
        "streams": facts.step_s is not None,
        "batches": facts.max_batch > 1,
        "realtime": status.realtime,
        "in_flight": status.in_flight,
        "policy": status.policy,
    }
    if status.footprint_bytes:
        figures["footprint_bytes"] = status.footprint_bytes
    if status.memory is not None and figures["resident"]:
        figures["memory"] = dict(status.memory)
    if status.cost:
        figures["speed_x_realtime"] = round(1 / status.cost, 2)
    if status.last_error is not None:
        figures["last_error"] = status.last_error
    return figures
