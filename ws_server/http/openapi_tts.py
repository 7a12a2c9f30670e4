"""The description of `POST /v1/tts` and `/v1/tts/stream`."""

from typing import Any, get_args

from protocol.messages import Format, Markup, SampleRate
from ws_server.http.tts_order import MAX_CAP

_INTEGER = {"type": "integer"}
_STRING = {"type": "string"}
_CAP = {"type": ["integer", "null"], "minimum": 0, "maximum": MAX_CAP, "description": "0: no cap"}

TTS: dict[str, Any] = {
    "type": "object",
    "required": ["text"],
    "additionalProperties": False,
    "properties": {
        "text": {"type": "string", "minLength": 1, "description": "with something to speak in it"},
        "voice": {"type": ["string", "null"], "maxLength": 128},
        "engine": {"type": ["string", "null"], "maxLength": 64},
        "language": {
            "type": ["string", "null"],
            "maxLength": 64,
            "description": "BCP-47, ISO code or English name",
        },
        "format": {"enum": [*get_args(Format), None], "default": "s16le"},
        "sample_rate_hz": {"enum": [*get_args(SampleRate), None]},
        "speed": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 10},
        "cache": {"type": ["boolean", "null"], "default": True},
        "markup": {"enum": [*get_args(Markup), None], "default": "markdown"},
        "seed": {"type": ["integer", "null"], "minimum": 0, "maximum": 2**63 - 1},
        "max_chars_per_gen": _CAP,
        "max_sentences_per_gen": _CAP,
        "options": {"type": ["object", "null"], "description": "the engine's own"},
    },
}

_AUDIO_HEADERS = {
    "X-Sample-Rate": {"schema": _INTEGER, "required": True, "description": "Hz"},
    "X-Audio-Format": {"schema": {"type": "string", "enum": list(get_args(Format))}, "required": True},
    "X-Channels": {"schema": {"type": "integer", "const": 1}, "required": True},
    "X-Engine": {"schema": _STRING, "required": True},
    "X-Voice": {"schema": _STRING, "required": True},
    "X-Cache": {
        "schema": {"type": "string", "enum": ["hit", "miss", "partial"]},
        "required": True,
        "description": "whether all, none or some of it had been said before",
    },
    "X-Unspoken-Chars": {
        "schema": _INTEGER,
        "description": "letters that the engine can't speak, if there are any",
    },
}


def _error(text: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Error"}
    return {"description": text, "content": {"application/json": {"schema": schema}}}


_ERRORS = {
    "400": _error("the body isn't a JSON object"),
    "401": _error("no key or a wrong one"),
    "403": _error("not from this page"),
    "404": _error("no such voice or engine"),
    "408": _error("the body didn't arrive, or nothing was read, in time"),
    "413": _error("too much text"),
    "422": _error("a field is unknown, wrong, or can't be served; param names it"),
    "429": _error("no slot came free, or more than the key may ask for"),
    "500": _error("the engine failed"),
    "503": _error("draining, not ready, or an engine that can't be used"),
}


def _speaks(summary: str, kind: str, text: str, errors: dict[str, Any]) -> dict[str, Any]:
    content = {kind: {"schema": {"type": "string", "format": "binary"}}}
    schema = {"$ref": "#/components/schemas/Tts"}
    return {
        "post": {
            "summary": summary,
            "responses": {
                "200": {"description": text, "headers": _AUDIO_HEADERS, "content": content},
                **errors,
            },
            "security": [{"key": []}],
            "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        }
    }


TTS_PATHS: dict[str, Any] = {
    "/v1/tts": _speaks(
        "A text, spoken: one WAV file",
        "audio/wav",
        "all of it",
        {**_ERRORS, "504": _error("it took too long; nothing more is made")},
    ),
    "/v1/tts/stream": _speaks(
        "A text, spoken: raw samples while they are made",
        "application/octet-stream",
        "mono samples, little-endian; an answer that breaks off isn't whole",
        _ERRORS,
    ),
}
