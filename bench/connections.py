"""What connections cost that do nothing, hang up or don't read."""

import asyncio
import statistics
import subprocess
import sys
from contextlib import AsyncExitStack

import psutil

from bench import server, texts
from bench.bare import Bare
from bench.row import Row
from bench.talk import Talk
from saystream.load.crowd import percentiles
from saystream.load.link import Link

_ECHO = """
import asyncio, sys
from websockets.asyncio.server import serve
async def echo(socket):
    async for message in socket:
        await socket.send(message)
async def main():
    async with serve(echo, "127.0.0.1", int(sys.argv[1]), compression=None, ping_interval=None,
                     subprotocols=["saystream.v1.msgpack"]):
        print("ready", flush=True)
        await asyncio.get_running_loop().create_future()
asyncio.run(main())
"""
_SETTLE_S = 1.0


async def idle_memory(connections: int = 1000) -> list[Row]:
    with server.running() as running:
        ours = await _bytes_each(running.url, running.process, connections)
    port = server.free_port()
    echo = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _ECHO, str(port), stdout=subprocess.PIPE
    )
    try:
        assert echo.stdout is not None
        await echo.stdout.readline()
        bare = await _bytes_each(f"ws://127.0.0.1:{port}/", psutil.Process(echo.pid), connections)
    finally:
        echo.kill()
        await echo.wait()
    return [
        Row(
            f"memory of {connections} idle connections",
            f"{ours / 1000:.1f} kB each; a bare echo server {bare / 1000:.1f} kB",
            "≤ 64 kB, and ≤ 24 kB over the echo server",
            ours <= 64_000 and ours - bare <= 24_000,
            {"bytes": ours, "echo_bytes": bare},
        )
    ]


async def _bytes_each(url: str, process: psutil.Process, connections: int) -> float:
    async with AsyncExitStack() as stack:
        await _open(stack, url, 50)  # what the first ones bring with them isn't theirs
        await asyncio.sleep(_SETTLE_S)
        before = process.memory_info().rss
        await _open(stack, url, connections)
        await asyncio.sleep(_SETTLE_S)
        return float(process.memory_info().rss - before) / connections


async def _open(stack: AsyncExitStack, url: str, count: int) -> list[Link]:
    links = []
    for _ in range(count):
        link = Link(url, None)
        await link.connect()
        stack.callback(link.abort)
        links.append(link)
    return links


async def cancel(rounds: int = 60) -> list[Row]:
    """Two talk to a server with one lane: one is cancelled in mid-step, the other asks at that moment."""
    text = " ".join(texts.sentences()[:6])
    alone, after = [], []
    answers = []
    with server.running() as running:
        async with Talk(running.url) as first, Talk(running.url) as second:
            for _ in range(rounds):
                alone.append(await _first_audio_s(second))
            for _ in range(rounds):
                await first.begin([text], lead_ms=0)
                await first.spoke()
                answers.append(1000 * await first.cancel())
                after.append(await _first_audio_s(second))
    bare = Bare()
    step_ms = percentiles(
        [took_ms for sentence in texts.sentences()[:40] for took_ms in bare.step_ms(sentence)]
    )[1]
    bare.unload()
    extra_ms = 1000 * (percentiles(after)[1] - statistics.median(alone))
    answer_ms = percentiles(answers)
    return [
        Row(
            "from a cancel to a free lane: another's first audio right after it, more than alone",
            f"p95 {extra_ms:.1f} ms more; one step p95 {step_ms:.1f} ms; "
            f"the cancel is answered after p50 {answer_ms[0]:.1f}, p95 {answer_ms[1]:.1f} ms",
            "≤ one step + 5 ms p95, and one step ≤ 500 ms",
            extra_ms <= step_ms + 5 and step_ms <= 500,
            {"extra_ms_p95": extra_ms, "step_ms_p95": step_ms, "answer_ms_p95": answer_ms[1]},
        )
    ]


async def _first_audio_s(talk: Talk) -> float:
    heard = await talk.speak(["Hello there, this is a short test."])
    assert heard.first_audio_s is not None
    return heard.first_audio_s - heard.sent_s[0]


async def stalled_readers(readers: int = 10, rounds: int = 60) -> list[Row]:
    text = " ".join(texts.sentences()[:40])
    with server.running() as running:
        async with Talk(running.url) as talk:
            without = [await _first_audio_s(talk) for _ in range(rounds)]
            rss = running.rss_bytes
            async with AsyncExitStack() as stack:
                for _ in range(readers):
                    reader = await stack.enter_async_context(Talk(running.url))
                    await reader.begin([text], lead_ms=0)
                    reader.link.pause()
                await asyncio.sleep(3)
                beside = [await _first_audio_s(talk) for _ in range(rounds)]
                grown = (running.rss_bytes - rss) / readers
    ratio = percentiles(beside)[1] / percentiles(without)[1]
    return [
        Row(
            f"beside {readers} stalled readers",
            f"others' first audio p95 {ratio:.2f} times that without; {grown / 1e6:.2f} MB for each",
            "≤ 1.2 times, ≤ 2 MB each",
            ratio <= 1.2 and grown <= 2e6,
            {"ratio": ratio, "bytes_each": grown},
        )
    ]
