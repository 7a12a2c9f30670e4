"""`/v1/voices`: who can speak, and recordings that become voices."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ws_server.catalogue import VoiceRow
from ws_server.http.access import admin, caller, from_known_page, services_of, shows_a_key
from ws_server.http.errors import Problem
from ws_server.http.uploads import receive_voice

_NO_STORE = {"cache-control": "no-store"}
T = TypeVar("T")


async def list_voices(request: Request) -> Response:
    """Those that people have uploaded aren't for everybody's eyes."""
    services = services_of(request)
    await _off_the_loop(request, services.library.refresh)
    rows = services.catalogue.voices(request.query_params.get("engine"))
    if not shows_a_key(request):
        rows = [row for row in rows if row.uploaded is None]
    return JSONResponse({"voices": [_row(row) for row in rows]}, headers=_NO_STORE)


async def add_voice(request: Request) -> Response:
    """201; 200 where it was there already: then its first name stays."""
    from_known_page(request)
    identity = admin(request)
    made = await receive_voice(request)
    services = services_of(request)
    if made.is_new:
        services.log.info("voice added", voice=made.voice.voice_id, key=identity.name)
    row = services.catalogue.voice(made.voice.voice_id)
    engines = () if row is None else row.engines
    for engine, clone in services.catalogue.to_prepare(made.voice):
        services.dispatcher.prepare(engine, clone)
    body = {
        "voice_id": made.voice.voice_id,
        "name": made.voice.name,
        "engines": list(engines),
        "report": msgspec.to_builtins(made.report),
    }
    location = {"location": f"/v1/voices/{made.voice.voice_id}"}
    return JSONResponse(body, 201 if made.is_new else 200, {**_NO_STORE, **location})


async def show_voice(request: Request) -> Response:
    caller(request)
    return JSONResponse(_details(await _find(request)), headers=_NO_STORE)


async def play_voice(request: Request) -> Response:
    """The recording as it was kept."""
    caller(request)
    row = await _find(request)
    if row.uploaded is None:
        raise Problem(404, "not_found", f"{row.voice_id} is built in and has no recording")
    library = services_of(request).library
    wav = await _off_the_loop(request, lambda: library.clip(row.voice_id).encode("WAV"))
    headers = {**_NO_STORE, "content-disposition": f'inline; filename="{row.voice_id}.wav"'}
    return Response(wav, media_type="audio/wav", headers=headers)


async def remove_voice(request: Request) -> Response:
    from_known_page(request)
    identity = admin(request)
    row = await _find(request)
    if row.uploaded is None:
        raise Problem(409, "conflict", f"{row.voice_id} is built in: it can't be removed")
    services = services_of(request)
    if not await _off_the_loop(request, lambda: services.library.remove(row.voice_id)):
        raise _missing(row.voice_id)
    services.log.info("voice removed", voice=row.voice_id, key=identity.name)
    return Response(status_code=204, headers=_NO_STORE)


async def _find(request: Request) -> VoiceRow:
    """Raises Problem."""
    voice_id = request.path_params["voice_id"]
    services = services_of(request)
    await services.learn_voice(voice_id)
    row = services.catalogue.voice(voice_id)
    if row is None:
        raise _missing(voice_id)
    return row


def _missing(voice_id: str) -> Problem:
    return Problem(404, "unknown_voice", f"there is no voice {voice_id[:128]!r}", param="voice_id")


async def _off_the_loop(request: Request, work: Callable[[], T]) -> T:
    return await to_thread.run_sync(work, limiter=services_of(request).library_limiter)


def _row(row: VoiceRow) -> dict[str, Any]:
    found: dict[str, Any] = {
        "voice_id": row.voice_id,
        "name": row.name,
        "kind": row.kind,
        "engines": list(row.engines),
    }
    if row.language is not None:
        found["language"] = row.language
    if row.uploaded is not None:
        found["duration_s"] = row.uploaded.report.duration_s
        found["created"] = datetime.fromtimestamp(row.uploaded.created_s, UTC).isoformat(timespec="seconds")
    return found


def _details(row: VoiceRow) -> dict[str, Any]:
    found = _row(row)
    if row.uploaded is not None:
        traits = row.uploaded.traits
        more = {
            "ref_text": traits.transcript,
            "engine": traits.engine,
            "mode": traits.mode,
            "seed_text": traits.tone_transcript,
            "report": msgspec.to_builtins(row.uploaded.report),
        }
        found |= {name: value for name, value in more.items() if value is not None}
    return found
