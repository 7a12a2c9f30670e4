"""Where a server is, from whatever a user writes."""

from dataclasses import dataclass
from urllib.parse import SplitResult, urlencode, urlsplit, urlunsplit

DEFAULT_URL = "ws://127.0.0.1:8765"
_SPEAK = "/v1/speak"
_SCHEMES = {"ws": ("ws", "http"), "http": ("ws", "http"), "wss": ("wss", "https"), "https": ("wss", "https")}


@dataclass(frozen=True, slots=True)
class Address:
    socket_url: str
    """ws or wss, up to /v1/speak"""
    http_url: str
    """http or https, without a slash at its end"""

    def with_token(self, token: str | None) -> str:
        if token is None:
            return self.socket_url
        parts = urlsplit(self.socket_url)
        query = "&".join(part for part in (parts.query, urlencode({"token": token})) if part)
        return urlunsplit(parts._replace(query=query))


def parse(url: str) -> Address:
    """Accept `host:port`, http(s) or ws(s), with or without the path /v1/speak. Raises ValueError."""
    parts = urlsplit(url if "://" in url else f"ws://{url}")
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise ValueError(f"not the address of a server: {url!r}")
    socket_scheme, http_scheme = _SCHEMES[parts.scheme]
    base = parts.path.rstrip("/").removesuffix(_SPEAK)
    socket = SplitResult(socket_scheme, parts.netloc, base + _SPEAK, parts.query, "")
    http = SplitResult(http_scheme, parts.netloc, base, "", "")
    return Address(urlunsplit(socket), urlunsplit(http))
