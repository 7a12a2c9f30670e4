"""Who is calling: keys with a name and a role, and what a caller may do."""

import hashlib
import hmac
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ws_server.settings import BadSettings, Settings
from ws_server.tokens import NO_LIMITS, TokenLimits, TokenStore

Role = Literal["speak", "admin"]
_MIN_SECRET_CHARS = 16


class Unauthorized(Exception):  # noqa: N818 - named by situation
    """No key, or a wrong one."""


class Forbidden(Exception):  # noqa: N818 - named by situation
    """The caller is known, or its page is, and may not do this."""


@dataclass(frozen=True, slots=True)
class Identity:
    name: str
    """The key's name; utterances of one name share its place in the queue."""
    role: Role
    limits: TokenLimits = NO_LIMITS


OPEN = Identity("open", "admin")
"""Everyone, where no keys are configured."""


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    role: Role
    digest: bytes
    """SHA-256 of the secret, so that no comparison depends on the secret's length and no dump shows it."""


def parse_key(line: str) -> Key:
    """Read name:role:secret. Raises BadSettings, which never shows the secret."""
    name, _, rest = line.strip().partition(":")
    role, _, secret = rest.partition(":")
    if not name or not secret:
        raise BadSettings("keys: a key is written name:role:secret")
    match role:
        case "speak" | "admin":
            pass
        case _:
            raise BadSettings(f"keys: {name}: the role is speak or admin")
    if len(secret) < _MIN_SECRET_CHARS:
        raise BadSettings(f"keys: {name}: a secret has at least {_MIN_SECRET_CHARS} characters")
    return Key(name, role, _digest(secret))


def read_keys(settings: Settings) -> tuple[Key, ...]:
    """From the settings and the keys file. Raises BadSettings."""
    lines = [secret.get_secret_value() for secret in settings.keys]
    if settings.keys_file is not None:
        lines += _file_lines(settings.keys_file)
    keys = tuple(parse_key(line) for line in lines)
    names = [key.name for key in keys]
    for name in names:
        if names.count(name) > 1:
            raise BadSettings(f"keys: {name}: two keys have this name")
    return keys


def readable_by_all(settings: Settings) -> str | None:
    """What is wrong with where the keys lie, if something is."""
    path = settings.keys_file
    if path is None or os.name != "posix" or not path.stat().st_mode & stat.S_IROTH:
        return None
    return f"{path} can be read by everyone on this machine (chmod o-rwx)"


class Auth:
    """Holds the keys and the tokens made with them; used on the loop alone."""

    def __init__(self, keys: Iterable[Key], tokens: TokenStore) -> None:
        self._keys = tuple(keys)
        self.tokens = tokens

    @property
    def keyed(self) -> bool:
        return bool(self._keys)

    def replace_keys(self, keys: Iterable[Key]) -> None:
        """From now on; connections that are open stay."""
        keys = tuple(keys)
        # A server that was started with keys never becomes an open one by an emptied file.
        if self._keys and not keys:
            raise BadSettings("keys: there are none now; the former ones stay")
        self._keys = keys
        self.tokens.keep_only({key.name for key in keys})

    def identify(self, authorization: str | None) -> Identity:
        """Raises Unauthorized."""
        if not self._keys:
            return OPEN
        scheme, _, secret = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not secret:
            raise Unauthorized("a key is needed: Authorization: Bearer KEY")
        return self._find(secret.strip())

    def identify_socket(
        self, authorization: str | None, token: str | None, now_s: float, *, spend: bool
    ) -> Identity:
        """By the header, else by a token, which is good for one connection (`spend`). Raises Unauthorized."""
        if authorization is not None or token is None:
            return self.identify(authorization)
        ticket = self.tokens.spend(token, now_s) if spend else self.tokens.peek(token, now_s)
        if ticket is None:
            if not self._keys:
                return OPEN
            raise Unauthorized("the token is unknown, used or too old")
        return Identity(ticket.key_name, "speak", ticket.limits)

    def _find(self, secret: str) -> Identity:
        digest = _digest(secret)
        found = None
        for key in self._keys:
            if hmac.compare_digest(key.digest, digest):
                found = key
        if found is None:
            raise Unauthorized("the key is wrong")
        return Identity(found.name, found.role)


def _file_lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise BadSettings(f"keys_file: {path}: {reason}") from None
    return [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
