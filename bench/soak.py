"""`make soak`: half load for a long time, with people who hang up, cancel, stall and talk nonsense mixed in."""

import asyncio
import json
import random
import socket
import statistics
import struct
import time
import urllib.request
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from bench import server, texts
from bench.bare import audio_s_per_s
from bench.capacity import plan
from bench.row import Row
from bench.talk import Talk
from saystream.load.crowd import Report, listen
from saystream.load.link import frame
from saystream.load.replies import tokens

_BARE_S = 5.0
_WARM_SHARE = 0.2
"""Of the rounds: what grows then is warming up."""
_SETTLE_S = 8.0
"""Some seconds after the last step a lane gives back what a crowd needed."""
_FAULTY = json.dumps({"tone": {"faults": True, "step_ms": 100}})
_PAUSE_S = 0.2
"""Between two faults."""
_COUNTS = ("in_flight", "queued", "listeners", "streams", "tasks", "connections")
_RESET = struct.pack("ii", 1, 0)


async def soak(minutes: int = 10) -> list[Row]:
    """In rounds of a minute: what is kept between them, when nobody speaks, is what may grow."""
    listeners = max(1, int(0.5 * audio_s_per_s(texts.sentences(), lanes=1, seconds=_BARE_S)))
    faults = dict.fromkeys((fault.__name__.strip("_") for fault in _FAULTS), 0)
    rounds: list[Report] = []
    minutes_at: list[float] = []
    rss_bytes: list[float] = []
    with server.running(*server.OPEN, "--engines", _FAULTY) as running:
        await _warm_up(running.url)
        before = await _state(running)
        begin_s = time.monotonic()
        chance = random.Random(2)
        for number in range(minutes):
            async with asyncio.TaskGroup() as tasks:
                trouble = tasks.create_task(_trouble(running.url, faults, chance))
                rounds.append(await listen(replace(plan(running.url, listeners, 60), seed=number)))
                trouble.cancel()
            print("   ", rounds[-1].line(), flush=True)
            await asyncio.sleep(_SETTLE_S)
            minutes_at.append((time.monotonic() - begin_s) / 60)
            rss_bytes.append(float(running.rss_bytes))
            print(f"    then {rss_bytes[-1] / 1e6:.1f} MB", flush=True)
        after = await _state(running)
    slope = growth_bytes_per_min(minutes_at, rss_bytes)
    gaps = sum(report.notes.gaps for report in rounds)
    heard_s = sum(report.notes.heard_s for report in rounds)
    errors = [error for report in rounds for error in report.notes.errors]
    return [
        Row(
            f"soak: {listeners} listeners for {minutes} minutes beside {sum(faults.values())} faults "
            f"({', '.join(f'{count} {name}' for name, count in faults.items())})",
            f"{gaps} gaps in {heard_s:.0f} listener-seconds; {len(errors)} errors",
            "no gap, no error",
            gaps == 0 and not errors,
            {"gaps": float(gaps), "heard_s": heard_s},
        ),
        Row(
            "soak: growth of what the server keeps between the minutes, after warming up",
            f"{slope / 1000:.0f} kB a minute; {', '.join(f'{size / 1e6:.1f}' for size in rss_bytes)} MB",
            "≤ 100 kB a minute",
            slope <= 100_000,
            {"bytes_per_min": slope},
        ),
        Row(
            "soak: what is there before and after",
            ", ".join(f"{name} {count} and {after[name]}" for name, count in before.items()),
            "the same",
            before == after,
        ),
    ]


def growth_bytes_per_min(minutes_at: Sequence[float], rss_bytes: Sequence[float]) -> float:
    """Once it is warm; of one round alone: 0."""
    warm = round(_WARM_SHARE * len(rss_bytes))
    if len(rss_bytes) - warm < 2:
        return 0.0
    return statistics.linear_regression(minutes_at[warm:], rss_bytes[warm:]).slope


async def _state(running: server.Running) -> dict[str, int]:
    def metrics() -> str:
        with urllib.request.urlopen(f"{running.http_url}/metrics", timeout=5) as answer:  # noqa: S310 - our own server
            return str(answer.read().decode())

    told = dict(line.rsplit(" ", 1) for line in (await asyncio.to_thread(metrics)).splitlines())
    counts = {name: int(float(told[f"saystream_{name}"])) for name in _COUNTS}
    return {
        "descriptors": running.process.num_fds(),
        "threads": running.process.num_threads(),
        **counts,
    }


async def _warm_up(url: str) -> None:
    async with Talk(url) as talk:
        await talk.speak(["Hello there."])
        await talk.speak(["Hello there."], engine="tone")
    await asyncio.sleep(_SETTLE_S)


async def _trouble(url: str, faults: dict[str, int], chance: random.Random) -> None:
    while True:
        fault = chance.choice(_FAULTS)
        await fault(url, chance.choice(texts.corpus()))
        faults[fault.__name__.strip("_")] += 1
        await asyncio.sleep(_PAUSE_S)


async def _reset(url: str, reply: str) -> None:
    async with Talk(url) as talk:
        await talk.begin([reply])
        await talk.spoke()
        talk.link.socket().setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


async def _hang_up(url: str, reply: str) -> None:
    async with Talk(url) as talk:
        await talk.begin([reply])
        await talk.spoke()
        talk.link.close()


async def _leave_before_the_first_frame(url: str, reply: str) -> None:
    async with Talk(url) as talk:
        await talk.begin([reply])


async def _cancel(url: str, reply: str) -> None:
    async with Talk(url) as talk:
        await talk.begin(tokens(reply), 200, until_spoke=True)
        await talk.spoke()
        await talk.cancel()


async def _stall(url: str, reply: str) -> None:
    async with Talk(url) as talk:
        await talk.begin([reply * 5], lead_ms=0)
        talk.link.pause()
        await asyncio.sleep(3)


async def _talk_nonsense(url: str, _: str) -> None:
    async with Talk(url) as talk:
        for nonsense in (b"\xc1", b"\x80", b"\x81\xa4type\xa4what", b"\xdf\xff\xff\xff\xff", b"\x90"):
            talk.link.send(frame(nonsense))
        await asyncio.sleep(0.1)


async def _break_the_engine(url: str, reply: str) -> None:
    fault = random.Random(reply).choice(("nan", "nothing", "raise", "raise_at_start", "collapse", "beyond"))
    async with Talk(url) as talk:
        await talk.speak([reply[:100]], engine="tone", options={"fault": fault, "at_step": 1})


async def _vanish(url: str, reply: str) -> None:
    """Without a word, and hears nothing any more; its connection is still there when it comes to an end."""
    async with Talk(url) as talk:
        await talk.begin([reply])
        await talk.spoke()
        talk.link.pause()
        await asyncio.sleep(1)


_FAULTS: tuple[Callable[[str, str], Awaitable[None]], ...] = (
    _reset,
    _hang_up,
    _leave_before_the_first_frame,
    _cancel,
    _stall,
    _talk_nonsense,
    _break_the_engine,
    _vanish,
)
