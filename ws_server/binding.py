"""Takes the port before anything is loaded, and refuses to be open to strangers by accident."""

import errno
import ipaddress
import socket

from ws_server.settings import BadSettings, Settings

BIND_FAILED = 69
"""EX_UNAVAILABLE of sysexits.h. uvicorn's own exit after a failed bind is 0, which supervisors take for a clean
stop."""
SEND_BUFFER_BYTES = 32 * 1024
"""Inherited by every connection. The kernel's own default takes 80 s of speech for a client that reads nothing."""
_BACKLOG = 1024


class CantBind(Exception):  # noqa: N818 - named by situation
    """The message says why, and how to find out more."""


def require_keys_beyond_this_machine(settings: Settings, *, keyed: bool) -> None:
    """Raises BadSettings."""
    if keyed or settings.allow_open or _is_local(settings.host):
        return
    raise BadSettings(
        f"host: {settings.host} can be reached from other machines and no keys are set; set keys or keys_file, "
        "or allow_open if everyone there may use and stop this server"
    )


def bind(settings: Settings) -> socket.socket:
    """A listening socket. Raises CantBind."""
    family, address = _address(settings.host, settings.port)
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        if family == socket.AF_INET6 and settings.host == "::":
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listening.bind(address)
        listening.listen(_BACKLOG)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise CantBind(_explain(error, settings)) from None
    return listening


def _address(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    try:
        rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError):
        raise CantBind(f"host: {host} isn't an address of this machine") from None
    family, _, _, _, address = rows[0]
    return family, (str(address[0]), int(address[1]))


def _explain(error: OSError, settings: Settings) -> str:
    where = f"{settings.host}:{settings.port}"
    if error.errno == errno.EADDRINUSE:
        return (
            f"{where} is taken by another process; lsof -nP -iTCP:{settings.port} -sTCP:LISTEN names it, "
            "--port takes another"
        )
    return f"can't listen on {where}: {error.strerror}"


def _is_local(host: str) -> bool:
    try:
        rows = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return all(ipaddress.ip_address(str(row[4][0]).partition("%")[0]).is_loopback for row in rows)
    except (socket.gaierror, UnicodeError, ValueError):
        return False
