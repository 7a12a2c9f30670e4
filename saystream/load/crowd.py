"""A crowd of listeners for a while, and what they have heard."""

import asyncio
import itertools
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from protocol.messages import Open
from saystream.load.link import Link
from saystream.load.listener import Listener, Notes
from saystream.load.playout import GAP_S

GAPS_PER_LISTENER_S = 1 / 10_000
"""What counts as gap-free."""
_PHASES = 8
"""Listeners are spread over so many moments of a token's period, so that their tokens don't come in one burst."""
_ARRIVE_S = 3.0
"""The crowd comes in over so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    url: str
    """ws://, up to /v1/speak"""
    key: str | None
    opening: Open
    replies: Sequence[str]
    listeners: int
    seconds: float
    tokens_per_s: float = 30
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Report:
    listeners: int
    notes: Notes
    own_cpu: float
    """Cores that the generator itself has used."""
    late_ms: float
    """p99 of how late its tokens were sent; much more than a token's period means: don't believe the rest."""

    @property
    def gap_free(self) -> bool:
        return self.notes.gaps <= self.notes.heard_s * GAPS_PER_LISTENER_S

    @property
    def held(self) -> bool:
        """Everybody was let in and heard, without gaps."""
        notes = self.notes
        return self.gap_free and not (notes.errors or notes.refused or notes.unheard or notes.queued)

    def line(self) -> str:
        notes = self.notes
        faults = [
            f"{count} {what}"
            for count, what in (
                (notes.queued, "queued"),
                (notes.refused, "refused"),
                (notes.unheard, "unheard"),
                (len(set(notes.errors)), f"errors ({', '.join(sorted(set(notes.errors)))[:200]})"),
            )
            if count
        ]
        first = percentiles(notes.first_audio_ms)
        return (
            f"{self.listeners:4d} listeners  {notes.heard_s:7.0f} listener-seconds  {notes.gaps:4d} gaps"
            f" > {1000 * GAP_S:.0f} ms  first audio p50 {first[0]:.0f} p95 {first[1]:.0f} ms"
            f"  generator {100 * self.own_cpu:.0f} % of a core" + "".join(f"  {fault}" for fault in faults)
        )


def percentiles(values: Sequence[float]) -> tuple[float, float]:
    """p50 and p95; zeros for nothing."""
    ordered = sorted(values)
    if not ordered:
        return 0.0, 0.0
    return ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]


async def listen(plan: Plan) -> Report:
    """Raises OSError, LinkRefusedError."""
    notes = Notes()
    loop = asyncio.get_running_loop()
    chance = random.Random(plan.seed)  # noqa: S311 - which reply comes when
    links = [Link(plan.url, plan.key) for _ in range(plan.listeners)]
    for link in links:
        await link.connect()
    begin_s = loop.time()
    cpu_s = time.process_time()
    listeners = [
        Listener(
            link,
            plan.opening,
            _replies(plan.replies, chance),
            notes,
            loop.time,
            begins_at_s=begin_s + _ARRIVE_S * at / len(links),
        )
        for at, link in enumerate(links)
    ]
    late_s = await _tick(listeners, plan, loop)
    cpu_s = time.process_time() - cpu_s
    for listener in listeners:
        listener.stop(loop.time())
    return Report(plan.listeners, notes, cpu_s / (loop.time() - begin_s), 1000 * late_s)


async def _tick(listeners: Sequence[Listener], plan: Plan, loop: asyncio.AbstractEventLoop) -> float:
    """Until the plan's time is over; how late the ticks were (p99, seconds)."""
    step_s = 1 / plan.tokens_per_s / _PHASES
    groups = [listeners[phase::_PHASES] for phase in range(_PHASES)]
    due_s = loop.time()
    end_s = due_s + plan.seconds
    late: list[float] = []
    for group in itertools.cycle(groups):
        due_s += step_s
        if due_s > end_s:
            break
        await asyncio.sleep(due_s - loop.time())
        now_s = loop.time()
        late.append(now_s - due_s)
        for listener in group:
            listener.tick(now_s)
    return sorted(late)[int(0.99 * len(late))] if late else 0.0


def _replies(replies: Sequence[str], chance: random.Random) -> Iterator[str]:
    while True:
        yield from chance.sample(replies, len(replies))
