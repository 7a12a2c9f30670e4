"""`saystream engines` and `saystream voices`: what a server offers, as a table."""

from collections.abc import Sequence
from urllib.parse import quote

from saystream.asking import ask


def engines(url: str, key: str | None) -> str:
    rows = [("ENGINE", "STATE", "DEVICE", "RATE", "SPEED", "LANGUAGES", "VOICES")]
    for engine in ask(url, "/v1/engines", key)["engines"]:
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


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
