"""`saystream voices add` and `remove`: recordings that become voices of a server."""

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from saystream.asking import ask
from saystream.terminal import plain

_TIMEOUT_S = 120


def add(url: str, key: str | None, files: Mapping[str, Path], fields: Mapping[str, str]) -> str:
    """Its id, then what was found and done, a line each. Raises CannotConnect, HandshakeRefused, OSError."""
    kind, body = form({name: path.read_bytes() for name, path in files.items()}, fields)
    answer = ask(
        url,
        "/v1/voices",
        key,
        method="POST",
        body=body,
        headers={"Content-Type": kind},
        timeout_s=_TIMEOUT_S,
    )
    return plain("\n".join([answer["voice_id"], *_findings(answer)]))


def remove(url: str, key: str | None, voice_id: str) -> None:
    """Raises CannotConnect, HandshakeRefused."""
    ask(url, f"/v1/voices/{quote(voice_id, safe='')}", key, method="DELETE")


def form(files: Mapping[str, bytes], fields: Mapping[str, str]) -> tuple[str, bytes]:
    """The content type and the body of multipart/form-data (RFC 7578)."""
    boundary = secrets.token_hex(16)
    parts = [
        _part(boundary, f'name="{name}"', value.encode("utf-8", "replace")) for name, value in fields.items()
    ]
    parts += [_part(boundary, f'name="{name}"; filename="{name}"', data) for name, data in files.items()]
    return f"multipart/form-data; boundary={boundary}", b"".join([*parts, f"--{boundary}--\r\n".encode()])


def _part(boundary: str, names: str, data: bytes) -> bytes:
    head = f"--{boundary}\r\nContent-Disposition: form-data; {names}\r\n\r\n"
    return head.encode() + data + b"\r\n"


def _findings(answer: Mapping[str, Any]) -> list[str]:
    report = answer["report"]
    length = f"{report['duration_s']:.1f} s at {report['sample_rate_hz']} Hz"
    lines = [f"{length}, speech {report['loudness_dbfs']:.0f} dBFS, noise {report['noise_dbfs']:.0f} dBFS"]
    lines += [f"repaired: {done}" for done in report["repaired"]]
    lines += [f"warning: {warning}" for warning in report["warnings"]]
    engines = ", ".join(answer["engines"])
    lines.append(
        f"engines that can use it: {engines}" if engines else "warning: no engine of this server can use it"
    )
    return lines
