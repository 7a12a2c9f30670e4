"""Which web pages may use this server, and by which names it may be called.

Without keys a browser's own rules are all that keeps a page from elsewhere out, and a page can point a name of its
own at this machine (DNS rebinding). So an `Origin` has to be this server's own or a listed one, and without keys
the `Host` has to be an address, `localhost`, this machine's own name or a listed one.
"""

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Origins:
    allowed: frozenset[str]
    """Origins as a browser sends them; "*" for any."""
    hosts: frozenset[str]
    """Names of this server, in lower case, without a port."""
    any_host: bool
    """Keys keep strangers out, and no names are listed."""

    @classmethod
    def of(cls, *, origins: tuple[str, ...], hosts: tuple[str, ...], keyed: bool) -> "Origins":
        return cls(
            allowed=frozenset(origin.rstrip("/").lower() for origin in origins),
            hosts=frozenset(host.lower().rstrip(".") for host in (*hosts, socket.gethostname(), "localhost")),
            any_host=keyed and not hosts,
        )

    def allows(self, origin: str | None, host: str | None) -> bool:
        return self.knows_host(host) and self.allows_origin(origin, host)

    def allows_origin(self, origin: str | None, host: str | None) -> bool:
        if origin is None or self.lists(origin):
            return True
        scheme = origin.partition("://")[0].lower()
        if host is None or scheme not in _DEFAULT_PORTS:
            return False
        return _authority(origin) == _authority(f"{scheme}://{host}")

    def lists(self, origin: str) -> bool:
        return "*" in self.allowed or origin.lower() in self.allowed

    def knows_host(self, host: str | None) -> bool:
        # A request without Host isn't from a browser.
        if host is None or self.any_host:
            return True
        authority = _authority(f"http://{host}")
        if authority is None:
            return False
        name = authority[0]
        return name in self.hosts or name.endswith(".localhost") or _is_address(name)


def _authority(url: str) -> tuple[str, int | None] | None:
    """(host, port), or None where there is no host."""
    try:
        parts = urlsplit(url)
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return None
    return None if parts.hostname is None else (parts.hostname.rstrip("."), port)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
