"""`/v1/voices`: who can speak."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ws_server.http.access import services_of


async def list_voices(request: Request) -> Response:
    rows = services_of(request).catalogue.voices(request.query_params.get("engine"))
    voices = [
        {
            "voice_id": row.voice.voice_id,
            "name": row.voice.name,
            "kind": "builtin",
            "engines": list(row.engines),
            "language": row.voice.language,
        }
        for row in rows
    ]
    return JSONResponse({"voices": voices}, headers={"cache-control": "no-store"})
