"""How much each key, and each connection, may ask for: utterances at once, characters, connections, messages."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

MESSAGES_BURST_S = 10.0
"""A connection may send so many seconds' worth of messages at once."""
_HOLD_MEMORY = 0.8
_UNKNOWN_HOLD_S = 5.0
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLimits:
    """None: no bound but those of the whole server."""

    streams: int | None = None
    """Utterances open at once."""
    chars_per_min: int | None = None
    connections_per_min: int | None = None

    def with_changes(self, changes: Mapping[str, int | None]) -> "KeyLimits":
        return replace(self, **changes)


class Bucket:
    """A rate with a burst; pure. What is taken beyond it is a debt, so that one large piece is always possible."""

    __slots__ = ("_at_s", "_level", "burst", "per_s")

    def __init__(self, per_s: float, burst: float) -> None:
        self.per_s = per_s
        self.burst = burst
        self._level = burst
        self._at_s = -math.inf

    def wait_s(self, now_s: float) -> float:
        """How long until there is a whole unit; 0: there is."""
        missing = 1 - self._level_at(now_s)
        return 0.0 if missing < _ROUNDING else missing / self.per_s

    def take(self, amount: float, now_s: float) -> None:
        self._level = self._level_at(now_s) - amount
        self._at_s = now_s

    def debt(self, now_s: float) -> float:
        return max(0.0, -self._level_at(now_s))

    def _level_at(self, now_s: float) -> float:
        if self._at_s == -math.inf:
            return self._level
        return min(self.burst, self._level + (now_s - self._at_s) * self.per_s)


def per_minute(limit: int | None) -> Bucket | None:
    return None if limit is None else Bucket(limit / 60, limit)


@dataclass(slots=True)
class Quota:
    """One key's use, over all of its connections. Every `*_wait_s` is 0 where nothing is in the way."""

    limits: KeyLimits
    streams: int = 0
    _hold_s: float = _UNKNOWN_HOLD_S
    _chars: Bucket | None = field(init=False)
    _connections: Bucket | None = field(init=False)

    def __post_init__(self) -> None:
        self._chars = per_minute(self.limits.chars_per_min)
        self._connections = per_minute(self.limits.connections_per_min)

    def stream_wait_s(self, *, leaving: int = 0) -> float:
        """For one more utterance, when `leaving` of those that are open end with it."""
        most = self.limits.streams
        if most is None or self.streams - leaving < most:
            return 0.0
        # One of so many ends after this long, if they end as the last ones have (Little's law).
        return self._hold_s / most

    def open_stream(self) -> None:
        self.streams += 1

    def close_stream(self, held_s: float) -> None:
        self.streams -= 1
        self._hold_s += (1 - _HOLD_MEMORY) * (held_s - self._hold_s)

    def chars_wait_s(self, now_s: float) -> float:
        return 0.0 if self._chars is None else self._chars.wait_s(now_s)

    def take_chars(self, chars: int, now_s: float) -> None:
        if self._chars is not None:
            self._chars.take(chars, now_s)

    def connection_wait_s(self, now_s: float) -> float:
        return 0.0 if self._connections is None else self._connections.wait_s(now_s)

    def take_connection(self, now_s: float) -> None:
        if self._connections is not None:
            self._connections.take(1, now_s)


class Quotas:
    """One for each key that has called; there are no more than keys."""

    def __init__(self, default: KeyLimits, of_keys: Mapping[str, KeyLimits]) -> None:
        self._default = default
        self._of_keys = dict(of_keys)
        self._quotas: dict[str, Quota] = {}

    def of(self, key: str) -> Quota:
        quota = self._quotas.get(key)
        if quota is None:
            quota = self._quotas[key] = Quota(self._of_keys.get(key, self._default))
        return quota


class Allowance:
    """What one connection may still ask for: its own rate of messages, and its key's quota."""

    def __init__(self, quota: Quota, messages_per_s: float | None) -> None:
        self.quota = quota
        self._messages = (
            None if messages_per_s is None else Bucket(messages_per_s, messages_per_s * MESSAGES_BURST_S)
        )

    def count_message(self, now_s: float) -> float:
        """0, or when it is so far over its rate that it should be sent away: for how long."""
        if self._messages is None:
            return 0.0
        self._messages.take(1, now_s)
        far_over = self._messages.debt(now_s) > self._messages.burst
        return self._messages.wait_s(now_s) if far_over else 0.0

    def message_wait_s(self, now_s: float) -> float:
        """For the message that was counted last."""
        if self._messages is None or self._messages.debt(now_s) == 0:
            return 0.0
        return self._messages.wait_s(now_s)

    def open_wait_s(self, now_s: float, *, leaving: int) -> float:
        """For one more utterance, when `leaving` of the open ones end with it."""
        return max(
            self.message_wait_s(now_s),
            self.quota.chars_wait_s(now_s),
            self.quota.stream_wait_s(leaving=leaving),
        )

    def take_text(self, chars: int, now_s: float) -> float:
        """0: it was taken; else how long to wait before there may be more."""
        wait_s = max(self.message_wait_s(now_s), self.quota.chars_wait_s(now_s))
        if wait_s == 0:
            self.quota.take_chars(chars, now_s)
        return wait_s
