"""The description of what can be done to an engine."""

from typing import Any

_NAME = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
_DRAIN = {
    "name": "drain",
    "in": "query",
    "schema": {"type": "boolean", "default": False},
    "description": "speak what is being spoken to its end first; the answer doesn't wait for that",
}


def _content(name: str, description: str) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{name}"}
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _post(summary: str, *, parameters: tuple[dict[str, Any], ...] = (), **more: str) -> dict[str, Any]:
    refusals = {
        "401": "no key or a wrong one",
        "403": "the key isn't an admin's, or not from this page",
        "404": "there is no such engine",
        **{status.removeprefix("_"): why for status, why in more.items()},
    }
    return {
        "post": {
            "summary": summary,
            "security": [{"key": []}],
            "parameters": [_NAME, *parameters],
            "responses": {
                "200": _content("Engine", "as it is now"),
                **{status: _content("Error", why) for status, why in sorted(refusals.items())},
            },
        }
    }


_FAILED = "it couldn't be loaded: the message says why"
ENGINE_PATHS: dict[str, Any] = {
    "/v1/engines/{name}/load": _post("Load an engine, and wait until it can speak", _503=_FAILED),
    "/v1/engines/{name}/unload": _post(
        "Give an engine's memory back",
        parameters=(_DRAIN,),
        _409="it is pinned, or has something to do",
        _422="drain is neither true nor false",
        _503="it can't be used at all",
    ),
    "/v1/engines/{name}/pin": _post("Load an engine, and keep it loaded", _503=_FAILED),
    "/v1/engines/{name}/unpin": _post("Let an engine go when it is idle", _503="it can't be used at all"),
}
