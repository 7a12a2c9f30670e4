"""The page that speaks live and the browser client, as files for a web server."""

from collections.abc import Mapping
from importlib.resources import files as _packaged
from types import MappingProxyType
from typing import NamedTuple

_DIRECTIVES = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self'",
    # Beside this server: the chat endpoint that a user names, called by the user's own browser.
    "connect-src": "'self' https: http://localhost:* http://127.0.0.1:*",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}
CONTENT_SECURITY_POLICY = "; ".join(f"{name} {sources}" for name, sources in _DIRECTIVES.items())
"""For the page (`/`) and all that belongs to it."""

SHARED_PATHS = frozenset({"/client.js", "/client.d.ts"})
"""What pages of other origins may load, hence to be served with `Access-Control-Allow-Origin: *`."""

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".ts": "text/plain; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


class StaticFile(NamedTuple):
    content_type: str
    body: bytes


def files() -> Mapping[str, StaticFile]:
    """Every file by its URL path: the page at `/`, the client beside it, the rest under `/demo/`."""
    found = {}
    for item in (_packaged(__name__) / "static").iterdir():
        suffix = item.name[item.name.rfind(".") :]
        found[_url_path(item.name)] = StaticFile(_TYPES[suffix], item.read_bytes())
    return MappingProxyType(found)


def _url_path(name: str) -> str:
    if name == "index.html":
        return "/"
    path = f"/{name}"
    return path if path in SHARED_PATHS else f"/demo{path}"
