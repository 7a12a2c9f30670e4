"""Short-lived tokens: each lets a web page open one connection, so that no key sits in the page."""

import hashlib
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

Positive = Annotated[int, Meta(ge=1, le=2**53)]


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """What a connection made with the token may do at most; None: what the server allows."""

    utterances: Positive | None = None
    """In all, over the connection's life."""
    total_chars: Positive | None = None
    """Of each utterance."""
    voice: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    """The only one."""


NO_LIMITS = TokenLimits()


@dataclass(frozen=True, slots=True)
class Ticket:
    key_name: str
    limits: TokenLimits
    deadline_s: float


class TokenStore:
    """Bounded; holds digests only. The oldest token gives way when it is full."""

    def __init__(self, *, expires_s: float = 60, max_tokens: int = 10_000) -> None:
        self.expires_s = expires_s
        self._max_tokens = max_tokens
        self._tickets: OrderedDict[bytes, Ticket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tickets)

    def make(self, key_name: str, limits: TokenLimits, now_s: float) -> str:
        self._expire(now_s)
        if len(self._tickets) >= self._max_tokens:
            self._tickets.popitem(last=False)
        token = secrets.token_urlsafe(32)
        self._tickets[_digest(token)] = Ticket(key_name, limits, now_s + self.expires_s)
        return token

    def peek(self, token: str, now_s: float) -> Ticket | None:
        ticket = self._tickets.get(_digest(token))
        return ticket if ticket is not None and now_s < ticket.deadline_s else None

    def spend(self, token: str, now_s: float) -> Ticket | None:
        ticket = self.peek(token, now_s)
        if ticket is not None:
            del self._tickets[_digest(token)]
        return ticket

    def keep_only(self, key_names: set[str]) -> None:
        """Tokens of keys that are gone are gone too."""
        for digest in [
            digest for digest, ticket in self._tickets.items() if ticket.key_name not in key_names
        ]:
            del self._tickets[digest]

    def _expire(self, now_s: float) -> None:
        # They all live equally long, so the first is the oldest.
        while self._tickets and next(iter(self._tickets.values())).deadline_s <= now_s:
            self._tickets.popitem(last=False)


def _digest(token: str) -> bytes:
    # Looked up by digest, so the time of a look-up says nothing about a stored token.
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
