"""`saystream engines` and `saystream voices`: what a server offers, as a table."""

import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

from saystream import address
from saystream.errors import CannotConnect, HandshakeRefused

_TIMEOUT_S = 10


def engines(url: str, key: str | None) -> str:
    rows = [("ENGINE", "STATE", "DEVICE", "RATE", "SPEED", "LANGUAGES", "VOICES")]
    for engine in _get(url, "/v1/engines", key)["engines"]:
        state = engine["state"] if engine["installed"] else f"needs saystream[{engine.get('missing_extra')}]"
        speed = engine.get("speed_x_realtime")
        rows.append(
            (
                engine["name"],
                state,
                engine.get("device") or "-",
                str(engine.get("sample_rate_hz") or "-"),
                "-" if speed is None else f"{speed:.0f}x",
                " ".join(engine["languages"]),
                str(len(engine["voices"])),
            )
        )
    return _table(rows)


def voices(url: str, key: str | None, engine: str | None) -> str:
    rows = [("VOICE", "NAME", "KIND", "LANGUAGE", "ENGINES")]
    query = "" if engine is None else f"?engine={engine}"
    for voice in _get(url, f"/v1/voices{query}", key)["voices"]:
        rows.append(
            (
                voice["voice_id"],
                voice.get("name") or "-",
                voice["kind"],
                voice.get("language") or "-",
                " ".join(voice["engines"]),
            )
        )
    return _table(rows)


def _get(url: str, path: str, key: str | None) -> Any:
    """Raises CannotConnect, HandshakeRefused."""
    target = address.parse(url).http_url + path
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    request = urllib.request.Request(target, headers=headers)  # noqa: S310 - parse allows only http and https
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - as above
            return json.load(answer)
    except urllib.error.HTTPError as refused:
        with refused:
            raise _refusal(refused) from None
    except (OSError, ValueError) as error:
        raise CannotConnect(f"no answer from {target}: {getattr(error, 'reason', error)}") from error


def _refusal(refused: urllib.error.HTTPError) -> HandshakeRefused:
    try:
        error = json.load(refused)["error"]
        return HandshakeRefused(refused.code, str(error["code"]), str(error["message"]), None)
    except (ValueError, KeyError, TypeError):  # not saystream's own
        return HandshakeRefused(refused.code, "http", refused.reason, None)


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
