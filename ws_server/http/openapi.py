"""`/openapi.json`: the HTTP endpoints, described by hand; a test holds them against the routes and the answers."""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from protocol.errors import ERROR_CODES
from ws_server.http.access import services_of
from ws_server.http.openapi_engines import ENGINE_PATHS
from ws_server.http.openapi_tts import TTS, TTS_PATHS
from ws_server.http.openapi_voices import VOICE, VOICE_DETAILS, VOICES_PATHS

_HTTP_CODES = (
    "unauthorized",
    "forbidden",
    "not_found",
    "method_not_allowed",
    "upgrade_required",
    "timeout",
    "conflict",
)
"""Beside those of the wire page."""


async def openapi(request: Request) -> Response:
    return JSONResponse(describe_api(services_of(request).version))


def describe_api(version: str) -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "saystream",
            "version": version,
            "description": "Beside the WebSocket at /v1/speak. Errors are JSON with a code; "
            "429 and 503 carry Retry-After.",
        },
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Error": _ERROR,
                "Engine": _ENGINE,
                "Voice": VOICE,
                "VoiceDetails": VOICE_DETAILS,
                "Health": _HEALTH,
                "TokenLimits": _TOKEN_LIMITS,
                "Tts": TTS,
                "Token": _TOKEN,
            },
        },
        "paths": _PATHS,
    }


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties}


def _list(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


def _json(schema: dict[str, Any], text: str) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _get(summary: str, answer: dict[str, Any], *, admin: bool = False, **more: Any) -> dict[str, Any]:
    return {"get": _operation(summary, {"200": answer}, admin=admin, **more)}


def _operation(summary: str, answers: dict[str, Any], *, admin: bool = False, **more: Any) -> dict[str, Any]:
    operation = {"summary": summary, "responses": answers, **more}
    if admin:
        operation["security"] = [{"key": []}]
        operation["description"] = "Needs a key with the role admin, where keys are configured."
        for status, text in (("401", "no key or a wrong one"), ("403", "not with this key, or this page")):
            answers[status] = _json(_ref("Error"), text)
    return operation


_STRING = {"type": "string"}
_INTEGER = {"type": "integer"}
_NUMBER = {"type": "number"}
_BOOLEAN = {"type": "boolean"}
_STRINGS = _list(_STRING)

_ERROR = _object(
    ["error"],
    error=_object(
        ["code", "message"],
        code={"type": "string", "enum": [*ERROR_CODES, *_HTTP_CODES]},
        message=_STRING,
        param=_STRING,
        retry_after_ms=_INTEGER,
    ),
)
_ENGINE = _object(
    ["name", "installed", "state", "resident", "languages", "voices", "clones", "in_flight"],
    name=_STRING,
    installed=_BOOLEAN,
    missing_extra=_STRING,
    state={"type": "string", "enum": ["unloaded", "loading", "ready", "failed", "draining"]},
    resident=_BOOLEAN,
    healthy=_BOOLEAN,
    policy=_STRING,
    checkpoint=_STRING,
    device=_STRING,
    sample_rate_hz=_INTEGER,
    languages=_STRINGS,
    voices=_STRINGS,
    clones=_STRINGS,
    streams=_BOOLEAN,
    batches=_BOOLEAN,
    realtime=_BOOLEAN,
    speed_x_realtime=_NUMBER,
    footprint_bytes=_INTEGER,
    memory=_object(
        ["active_bytes", "cache_bytes", "peak_bytes"],
        active_bytes=_INTEGER,
        cache_bytes=_INTEGER,
        peak_bytes=_INTEGER,
    ),
    in_flight=_INTEGER,
    download=_object(["file", "done_bytes"], file=_STRING, done_bytes=_INTEGER, total_bytes=_INTEGER),
    last_error=_STRING,
)
_HEALTH = _object(
    ["status", "version", "replica", "in_flight", "queued", "max_streams", "load", "connections", "draining"],
    status={"type": "string", "enum": ["ok", "unready"]},
    reason=_STRING,
    version=_STRING,
    replica=_STRING,
    uptime_s=_NUMBER,
    in_flight=_INTEGER,
    queued=_INTEGER,
    max_streams=_INTEGER,
    load=_NUMBER,
    connections=_INTEGER,
    draining=_BOOLEAN,
    device=_STRING,
    memory={"type": "object"},
    engines=_list(_ref("Engine")),
    voices=_INTEGER,
    cache={"type": "object"},
)
_TOKEN_LIMITS = _object(
    [],
    utterances={"type": ["integer", "null"], "minimum": 1},
    total_chars={"type": ["integer", "null"], "minimum": 1},
    voice={"type": ["string", "null"], "maxLength": 128},
)
_TOKEN = _object(["token", "expires_s"], token=_STRING, expires_s=_NUMBER)
_STATUS = _object(["status"], status=_STRING)

_PATHS: dict[str, Any] = {
    "/livez": {
        "get": _operation(
            "Does the process serve?",
            {
                "200": _json(_STATUS, "it does"),
                "503": _json(_ref("Error"), "an engine step hasn't come back: restart it"),
            },
        )
    },
    "/readyz": {
        "get": _operation(
            "May new work come?",
            {
                "200": _json(_STATUS, "it may; being full changes nothing"),
                "503": _json(_object(["reason"], reason=_STRING), "loading, draining, or an engine hangs"),
            },
        )
    },
    "/health": _get("How the server is", _json(_ref("Health"), "figures of this moment"), admin=True),
    "/metrics": _get(
        "Prometheus metrics",
        {"description": "text exposition format", "content": {"text/plain": {"schema": _STRING}}},
        admin=True,
    ),
    "/v1/engines": _get(
        "Engines", _json(_object(["engines"], engines=_list(_ref("Engine"))), "all, installed or not")
    ),
    **ENGINE_PATHS,
    **VOICES_PATHS,
    "/v1/tokens": {
        "post": _operation(
            "A token for one connection",
            {
                "201": _json(_ref("Token"), "use it as ?token= within expires_s"),
                "400": _json(_ref("Error"), "the body isn't a JSON object"),
                "401": _json(_ref("Error"), "no key or a wrong one"),
                "403": _json(_ref("Error"), "not from this page"),
                "413": _json(_ref("Error"), "the body is too long"),
                "422": _json(_ref("Error"), "a limit has the wrong type or is out of range"),
            },
            security=[{"key": []}],
            requestBody={"content": {"application/json": {"schema": _ref("TokenLimits")}}},
        )
    },
    **TTS_PATHS,
    "/v1/speak": {
        "get": _operation(
            "What an upgrade to a WebSocket would get",
            {
                "426": _json(_ref("Error"), "it would succeed"),
                "400": _json(_ref("Error"), "only unknown sub-protocols are offered"),
                "401": _json(_ref("Error"), "no key or token, or a wrong one"),
                "403": _json(_ref("Error"), "not from this page"),
                "429": _json(_ref("Error"), "the key connects too often"),
                "503": _json(_ref("Error"), "draining, not ready, or full"),
            },
            parameters=[{"name": "token", "in": "query", "schema": _STRING}],
        )
    },
    "/drain": {
        "post": _operation(
            "Take no new work, end with the last utterance",
            {
                "202": _json(
                    _object(["draining", "deadline_s"], draining=_BOOLEAN, deadline_s=_NUMBER), "it began"
                )
            },
            admin=True,
        )
    },
    "/openapi.json": _get("This description", _json({"type": "object"}, "OpenAPI 3.1")),
}
