"""Who may use the device: slots by measured load, and a bounded, fair queue before them."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass

from residency.fair_queue import FairQueue

UNKNOWN_HOLD_S = 4.0
"""How long a slot is held, before any was given back."""
HOLD_MEMORY = 0.9
EPSILON = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a listener needs."""

    key: int
    unit: str
    live: bool
    speed: float
    client: Hashable
    connection: Hashable
    returning: bool = False
    """It has spoken already, and comes before the queue's head."""


@dataclass(slots=True)
class _Share:
    count: int = 0
    speed: float = 0.0


@dataclass(frozen=True, slots=True)
class _Holder:
    claim: Claim
    since_s: float


class _Load:
    """Slots in use by unit, and the load that they are."""

    def __init__(self, cost: Callable[[str, int], float]) -> None:
        self._cost = cost
        self._shares: dict[str, _Share] = {}
        self.count = 0

    def change(self, claim: Claim, by: int) -> None:
        share = self._shares.setdefault(claim.unit, _Share())
        share.count += by
        share.speed += by * claim.speed
        self.count += by

    def count_of(self, unit: str) -> int:
        return self._shares[unit].count if unit in self._shares else 0

    def value(self, extra: Claim | None = None) -> float:
        total = 0.0
        for unit, share in self._shares.items():
            more = extra is not None and extra.unit == unit
            if count := share.count + more:
                total += self._cost(unit, count) * (share.speed + (extra.speed if extra and more else 0.0))
        if extra is not None and extra.unit not in self._shares:
            total += self._cost(extra.unit, 1) * extra.speed
        return total


class Admission:
    """Pure. Live listeners don't count renderings, which only get what is left over.

    `cost(unit, n)` is what one of n listeners takes of the device, as a part of real time; `max_streams(unit)`
    how many there may be; `elsewhere()` the load that is promised to live listeners of other lanes of the device.
    """

    def __init__(
        self,
        cost: Callable[[str, int], float],
        *,
        capacity: float,
        max_streams: Callable[[str], float],
        max_queue: int,
        queue_wait_s: float,
        elsewhere: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._cost = cost
        self._capacity = capacity
        self._max_streams = max_streams
        self._max_queue = max_queue
        self._queue_wait_s = queue_wait_s
        self._elsewhere = elsewhere
        self._holders: dict[int, _Holder] = {}
        self._live = _Load(cost)
        self._rendering = _Load(cost)
        self._returning: OrderedDict[int, None] = OrderedDict()
        self._queues = (FairQueue(), FairQueue())
        self._waiting: dict[int, _Holder] = {}
        self._hold_s = UNKNOWN_HOLD_S

    @property
    def in_flight(self) -> int:
        return len(self._holders)

    @property
    def queued(self) -> int:
        return len(self._waiting)

    @property
    def load(self) -> float:
        """Device seconds that the slot holders need in a second."""
        return self._live.value() + self._rendering.value()

    @property
    def promised(self) -> float:
        """The part of it that live ones need."""
        return self._live.value()

    def holders(self) -> list[int]:
        return list(self._holders)

    def holds(self, key: int) -> bool:
        return key in self._holders

    def waits(self, key: int) -> bool:
        return key in self._waiting

    def request(self, claim: Claim, now_s: float) -> bool:
        """Take a slot or a place in the queue; False: there is neither."""
        if not self._anyone_before(claim) and self._fits(claim):
            self._hold(claim, now_s)
            return True
        if claim.returning:
            self._returning[claim.key] = None
        elif len(self._waiting) - len(self._returning) >= self._max_queue:
            return False
        else:
            self._queues[not claim.live].push(claim.key, claim.client, claim.connection)
        self._waiting[claim.key] = _Holder(claim, now_s)
        return True

    def has_place(self, unit: str) -> bool:
        """Whether a new live listener would get a slot or a queue place."""
        claim = Claim(key=0, unit=unit, live=True, speed=1.0, client="", connection="")
        free = not self._anyone_before(claim) and self._fits(claim)
        return free or len(self._waiting) - len(self._returning) < self._max_queue

    def release(self, key: int, now_s: float) -> None:
        """Give back the slot or the queue place; idempotent."""
        if (holder := self._holders.pop(key, None)) is not None:
            self._load_of(holder.claim).change(holder.claim, -1)
            self._hold_s += (1 - HOLD_MEMORY) * (now_s - holder.since_s - self._hold_s)
        elif self._waiting.pop(key, None) is not None:
            if key in self._returning:
                del self._returning[key]
            else:
                next(queue for queue in self._queues if key in queue).remove(key)

    def take_over(self, old: int, claim: Claim, now_s: float) -> bool:
        """Give `old`'s slot or queue place to another; False: it had none that another can have.

        A rendering's slot is what the live ones have left over, so a live one takes it over only if it fits in anyway.
        """
        if old in self._holders:
            if claim.live and not self._holders[old].claim.live and not self._fits(claim):
                return False
            self.release(old, now_s)
            self._hold(claim, now_s)
            return True
        waiting = self._waiting.get(old)
        if waiting is None or waiting.claim.live != claim.live:
            return False
        del self._waiting[old]
        self._waiting[claim.key] = _Holder(claim, waiting.since_s)
        if old in self._returning:
            self._returning = OrderedDict((claim.key if k == old else k, None) for k in self._returning)
        else:
            self._queues[not claim.live].replace(old, claim.key)
        return True

    def admit(self, now_s: float) -> list[int]:
        """Those whose turn has come; strictly in order, so that nobody waits for ever behind smaller ones."""
        admitted = []
        while (key := next(self.order(), None)) is not None:
            claim = self._waiting[key].claim
            if not self._fits(claim):
                break
            if key in self._returning:
                del self._returning[key]
            else:
                self._queues[not claim.live].pop()
            del self._waiting[key]
            self._hold(claim, now_s)
            admitted.append(key)
        return admitted

    def expired(self, now_s: float) -> list[int]:
        return [key for key, w in self._waiting.items() if now_s - w.since_s >= self._queue_wait_s]

    def order(self) -> Iterator[int]:
        """The waiting in the order in which they will be admitted."""
        yield from self._returning
        for queue in self._queues:
            yield from queue

    def waits_s(self) -> dict[int, float]:
        """For each of the waiting, in order: how long it will wait by work ahead over the measured rate."""
        ahead, rate = 0.0, self._rate()
        waits = {}
        for key in self.order():
            ahead += self._weight(self._waiting[key].claim)
            waits[key] = ahead / rate
        return waits

    def retry_after_s(self) -> float:
        """How long one more would wait."""
        if not self._holders:
            return 0.0
        weights = [self._weight(one.claim) for one in (*self._holders.values(), *self._waiting.values())]
        mean = sum(weights) / len(weights)
        held, waiting = sum(weights[: len(self._holders)]), sum(weights[len(self._holders) :])
        return 0.0 if not waiting and held + mean <= 1 + EPSILON else (waiting + mean) / self._rate()

    def in_flight_of(self, unit: str) -> int:
        return self._live.count_of(unit) + self._rendering.count_of(unit)

    def _rate(self) -> float:
        """Weight that comes free in a second: what is held over how long it is held (Little's law)."""
        held = sum(self._weight(holder.claim) for holder in self._holders.values())
        return max(held, EPSILON) / max(self._hold_s, 0.01)

    def _weight(self, claim: Claim) -> float:
        """The part of all slots that a listener takes: by load or by count, whichever is scarcer."""
        load = self._cost(claim.unit, self._live.count + 1) * claim.speed / self._capacity
        return max(load, 1 / max(self._max_streams(claim.unit), 1))

    def _anyone_before(self, claim: Claim) -> bool:
        if self._returning or claim.returning:
            return bool(self._returning)
        return bool(self._queues[0] or (self._queues[1] and not claim.live))

    def _load_of(self, claim: Claim) -> _Load:
        return self._live if claim.live else self._rendering

    def _hold(self, claim: Claim, now_s: float) -> None:
        self._holders[claim.key] = _Holder(claim, now_s)
        self._load_of(claim).change(claim, +1)

    def _fits(self, claim: Claim) -> bool:
        """One is always let in, however expensive."""
        count = self._live.count + (0 if claim.live else self._rendering.count)
        if count == 0:
            return True
        load = self._elsewhere() + (
            self._live.value(claim) if claim.live else self._live.value() + self._rendering.value(claim)
        )
        return load <= self._capacity + EPSILON and count + 1 <= self._max_streams(claim.unit)
