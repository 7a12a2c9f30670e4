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
    """Holds digests only, so many for each key that none crowds out another's; a key's oldest gives way."""

    def __init__(self, *, expires_s: float = 60, max_tokens: int = 10_000) -> None:
        self.expires_s = expires_s
        self._max_tokens = max_tokens
        self._of_keys: dict[str, OrderedDict[bytes, Ticket]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._of_keys.values()))

    def make(self, key_name: str, limits: TokenLimits, now_s: float) -> str:
        tickets = self._of_keys.setdefault(key_name, OrderedDict())
        self._expire(tickets, now_s)
        if len(tickets) >= self._max_tokens:
            tickets.popitem(last=False)
        token = secrets.token_urlsafe(32)
        tickets[_digest(token)] = Ticket(key_name, limits, now_s + self.expires_s)
        return token

    def peek(self, token: str, now_s: float) -> Ticket | None:
        digest = _digest(token)
        ticket = next((tickets[digest] for tickets in self._of_keys.values() if digest in tickets), None)
        return ticket if ticket is not None and now_s < ticket.deadline_s else None

    def spend(self, token: str, now_s: float) -> Ticket | None:
        ticket = self.peek(token, now_s)
        if ticket is not None:
            del self._of_keys[ticket.key_name][_digest(token)]
        return ticket

    def keep_only(self, key_names: set[str]) -> None:
        """Tokens of keys that are gone are gone too."""
        self._of_keys = {name: tickets for name, tickets in self._of_keys.items() if name in key_names}

    @staticmethod
    def _expire(tickets: OrderedDict[bytes, Ticket], now_s: float) -> None:
        # They all live equally long, so the first is the oldest.
        while tickets and next(iter(tickets.values())).deadline_s <= now_s:
            tickets.popitem(last=False)


def _digest(token: str) -> bytes:
    # Looked up by digest, so the time of a look-up says nothing about a stored token.
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
