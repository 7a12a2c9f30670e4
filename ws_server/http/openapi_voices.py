"""The description of `/v1/voices` and what is below it."""

from typing import Any

from ws_server.http.uploads import MAX_NAME_CHARS, MAX_TEXT_CHARS

_STRING = {"type": "string"}
_STRINGS = {"type": "array", "items": _STRING}
_NUMBER = {"type": "number"}
_TEXT = {"type": "string", "maxLength": MAX_TEXT_CHARS}
_FILE = {"type": "string", "format": "binary"}

_REPORT = {
    "type": "object",
    "required": [
        "duration_s",
        "sample_rate_hz",
        "peak_dbfs",
        "loudness_dbfs",
        "noise_dbfs",
        "clipped_ratio",
        "silence_ratio",
        "repaired",
        "warnings",
    ],
    "properties": {
        "duration_s": {**_NUMBER, "description": "of what is kept"},
        "sample_rate_hz": {"type": "integer"},
        "peak_dbfs": _NUMBER,
        "loudness_dbfs": {**_NUMBER, "description": "RMS where somebody speaks"},
        "noise_dbfs": {**_NUMBER, "description": "RMS of the quietest tenth"},
        "clipped_ratio": _NUMBER,
        "silence_ratio": _NUMBER,
        "repaired": _STRINGS,
        "warnings": _STRINGS,
    },
}
VOICE: dict[str, Any] = {
    "type": "object",
    "required": ["voice_id", "name", "kind", "engines"],
    "properties": {
        "voice_id": _STRING,
        "name": {**_STRING, "description": "a label; a voice is asked for by its id"},
        "kind": {"type": "string", "enum": ["builtin", "uploaded"]},
        "engines": {**_STRINGS, "description": "that can use it here"},
        "language": _STRING,
        "duration_s": _NUMBER,
        "created": {"type": "string", "format": "date-time"},
    },
}
VOICE_DETAILS: dict[str, Any] = {
    **VOICE,
    "properties": {
        **VOICE["properties"],
        "ref_text": _STRING,
        "engine": _STRING,
        "mode": _STRING,
        "seed_text": _STRING,
        "report": _REPORT,
    },
}
_ADDED = {
    "type": "object",
    "required": ["voice_id", "name", "engines", "report"],
    "properties": {"voice_id": _STRING, "name": _STRING, "engines": _STRINGS, "report": _REPORT},
}
_UPLOAD = {
    "type": "object",
    "required": ["audio"],
    "additionalProperties": False,
    "properties": {
        "audio": {**_FILE, "description": "the recording: a file"},
        "ref_text": {**_TEXT, "description": "what is said in it"},
        "name": {"type": "string", "maxLength": MAX_NAME_CHARS, "description": "a label"},
        "language": {**_TEXT, "description": "BCP-47, ISO code or English name"},
        "engine": {**_TEXT, "description": "the only engine that may use it"},
        "mode": {"type": "string", "enum": ["audio", "audio+text"]},
        "seed_audio": {**_FILE, "description": "a second recording, whose tone is to be kept"},
        "seed_text": {**_TEXT, "description": "what is said in seed_audio"},
    },
}
_ENGINE_QUERY = {
    "name": "engine",
    "in": "query",
    "schema": _STRING,
    "description": "only voices that it can use",
}
_VOICE_ID = {"name": "voice_id", "in": "path", "required": True, "schema": _STRING}
_SECURITY: list[dict[str, list[str]]] = [{"key": []}]
_ADMIN = "Needs a key with the role admin, where keys are configured."


def _json(schema: dict[str, Any], text: str) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _error(text: str) -> dict[str, Any]:
    return _json({"$ref": "#/components/schemas/Error"}, text)


_NO_KEY = {"401": _error("no key or a wrong one")}
_NO_ADMIN = {**_NO_KEY, "403": _error("not with this key, or this page")}
_STORE = {"507": _error("the store of voices can't be read or written")}

VOICES_PATHS: dict[str, Any] = {
    "/v1/voices": {
        "get": {
            "summary": "Voices, built in and uploaded",
            "responses": {
                "200": _json(
                    {
                        "type": "object",
                        "required": ["voices"],
                        "properties": {
                            "voices": {"type": "array", "items": {"$ref": "#/components/schemas/Voice"}}
                        },
                    },
                    "each once",
                ),
                "404": _error("no such engine"),
                **_STORE,
            },
            "parameters": [_ENGINE_QUERY],
        },
        "post": {
            "summary": "A recording becomes a voice",
            "description": _ADMIN,
            "security": _SECURITY,
            "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": _UPLOAD}}},
            "responses": {
                "201": _json(_ADDED, "it is a new one"),
                "200": _json(_ADDED, "it was there: the same recording, transcript and choices"),
                "400": _error("the form can't be read"),
                "404": _error("no such engine"),
                "408": _error("the body didn't arrive in time"),
                "413": _error("the recording has too many bytes"),
                "415": _error("not a form, or not audio that can be read; the message lists what is"),
                "422": _error("understood, and won't do: too short, silent, no transcript; param names it"),
                **_NO_ADMIN,
                **_STORE,
            },
        },
    },
    "/v1/voices/{voice_id}": {
        "get": {
            "summary": "What is known of a voice",
            "security": _SECURITY,
            "parameters": [_VOICE_ID],
            "responses": {
                "200": _json({"$ref": "#/components/schemas/VoiceDetails"}, "with its report"),
                "404": _error("no such voice"),
                **_NO_KEY,
            },
        },
        "delete": {
            "summary": "Remove an uploaded voice and all that engines made of it",
            "description": _ADMIN,
            "security": _SECURITY,
            "parameters": [_VOICE_ID],
            "responses": {
                "204": {"description": "it is gone"},
                "404": _error("no such voice"),
                "409": _error("it is built in"),
                **_NO_ADMIN,
                **_STORE,
            },
        },
    },
    "/v1/voices/{voice_id}/audio": {
        "get": {
            "summary": "The recording of an uploaded voice, as it is kept",
            "security": _SECURITY,
            "parameters": [_VOICE_ID],
            "responses": {
                "200": {"description": "a WAV file", "content": {"audio/wav": {"schema": _FILE}}},
                "404": _error("no such voice, or a built-in one"),
                "410": _error("its recording is damaged: upload it again"),
                **_NO_KEY,
                **_STORE,
            },
        }
    },
}
