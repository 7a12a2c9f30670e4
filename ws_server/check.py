"""`saystream check`: would the server start? Reads everything and starts nothing."""

import socket
import ssl
from collections.abc import Callable, Iterator

from ws_server.auth import read_keys, readable_by_all
from ws_server.binding import CantBind, bind, require_keys_beyond_this_machine
from ws_server.catalogue import Catalogue
from ws_server.settings import BadSettings, Settings, load

OK = 0
WRONG = 1


def check(argv: list[str] | None = None) -> int:
    """Print a line for each thing looked at. Returns the exit code: 0 when the server would start."""
    try:
        settings = load(argv, prog="saystream check")
    except BadSettings as error:
        _say("wrong", "settings", str(error).replace("\n", "; "))
        return WRONG
    _say("ok", "settings", str(settings.config) if settings.config else "flags, variables, defaults")
    wrong = 0
    for what, look in _looks(settings):
        try:
            _say("ok", what, look())
        except (BadSettings, CantBind) as error:
            wrong += 1
            _say("wrong", what, str(error))
    return WRONG if wrong else OK


def _looks(settings: Settings) -> Iterator[tuple[str, Callable[[], str]]]:
    yield "keys", lambda: _keys(settings)
    yield "certificate", lambda: _certificate(settings)
    yield "port", lambda: _port(settings)
    yield "engine", lambda: _engine(settings)


def _keys(settings: Settings) -> str:
    keys = read_keys(settings)
    require_keys_beyond_this_machine(settings, keyed=bool(keys))
    if not keys:
        return (
            "none: open to everyone who reaches it" if settings.allow_open else "none: for this machine alone"
        )
    names = ", ".join(f"{key.name} ({key.role})" for key in keys)
    return "; but ".join(filter(None, (names, readable_by_all(settings))))


def _certificate(settings: Settings) -> str:
    if settings.tls_cert is None or settings.tls_key is None:
        return "none: no TLS"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.tls_cert, settings.tls_key)
    except ssl.SSLError as error:
        raise BadSettings(f"tls_cert, tls_key: not a certificate and its key: {error.reason}") from None
    except OSError as error:
        raise BadSettings(f"tls_cert, tls_key: {error.strerror}") from None
    return str(settings.tls_cert)


def _port(settings: Settings) -> str:
    with bind(settings) as listening:
        return _address(listening) + " is free"


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _engine(settings: Settings) -> str:
    catalogue = Catalogue.read(settings)
    missing = [entry.name for entry in catalogue.entries() if entry.facts is None]
    return f"{catalogue.default_engine}, voice {catalogue.default_voice}" + (
        f"; can't be used here: {', '.join(missing)}" if missing else ""
    )


def _say(verdict: str, what: str, detail: str) -> None:
    print(f"{verdict:5}  {what}: {detail}")  # noqa: T201 - the command's answer
