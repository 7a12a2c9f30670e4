"""`saystream engines` and `saystream voices`: what a server offers, as a table."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from saystream.asking import ask
from saystream.download_line import DownloadLine, amount
from saystream.terminal import plain

LOAD_S = 86_400.0
"""For an engine that is fetched first, over whatever network."""
_ENGINE_HEAD = (
    "ENGINE",
    "STATE",
    "POLICY",
    "DEVICE",
    "RATE",
    "SPEED",
    "MEMORY",
    "LANGUAGES",
    "VOICES",
)


def engines(url: str, key: str | None) -> str:
    return _table([_ENGINE_HEAD, *map(_engine_row, ask(url, "/v1/engines", key)["engines"])])


def change_engine(url: str, key: str | None, name: str, verb: str, *, drain: bool = False) -> str:
    """Load, unload, pin or unpin it; how it is then. A load may take minutes, and tells what it fetches."""
    query = "?drain=true" if drain else ""
    path = f"/v1/engines/{quote(name, safe='')}/{verb}{query}"
    with DownloadLine(url, key, name, sys.stderr):
        engine = ask(url, path, key, method="POST", timeout_s=LOAD_S)
    return _table([_ENGINE_HEAD, _engine_row(engine)])


def _engine_row(engine: Mapping[str, Any]) -> tuple[str, ...]:
    extra = engine.get("missing_extra")
    state = (
        engine["state"] if engine["installed"] else f"needs saystream[{extra}]" if extra else "not installed"
    )
    if "download" in engine:
        state += f", {amount(engine['download'])} fetched"
    speed = engine.get("speed_x_realtime")
    footprint_bytes = engine.get("footprint_bytes")
    return (
        engine["name"],
        state,
        engine.get("policy") or "-",
        engine.get("device") or "-",
        str(engine.get("sample_rate_hz") or "-"),
        "-" if speed is None else f"{speed:.0f}x",
        "-" if footprint_bytes is None else f"{footprint_bytes / 1e9:.1f} GB",
        " ".join(engine["languages"]),
        str(len(engine["voices"])),
    )


def voices(url: str, key: str | None, engine: str | None) -> str:
    rows = [("VOICE", "NAME", "KIND", "LANGUAGE", "ENGINES")]
    query = "" if engine is None else f"?engine={quote(engine)}"
    for voice in ask(url, f"/v1/voices{query}", key)["voices"]:
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


def _table(said: Sequence[Sequence[str]]) -> str:
    rows = [[plain(cell).replace("\n", " ") for cell in row] for row in said]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
