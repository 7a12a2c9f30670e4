"""What has been said before: how soon it is heard again, and what that costs beside making it."""

import random
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from bench import server, texts
from bench.bare import Bare
from bench.row import Row
from bench.talk import Talk
from engines.contract import Request, Source
from engines.registry import find
from pcm_cache.clip import Clip
from pcm_cache.entry import encode
from pcm_cache.files import Folder
from protocol.messages import Stats
from saystream.load.crowd import percentiles
from ws_server.catalogue import derived_seed
from ws_server.clip_key import clip_key

_SENTENCES = 50
_FROM_MEMORY = 200


async def first_frame() -> list[Row]:
    """From the moment at which a segment is known to the sending of its first frame, by the server's own clock."""
    said = random.Random(2).sample(texts.sentences(), _SENTENCES)
    with tempfile.TemporaryDirectory() as folder:
        kept = ("--cache", "--cache-dir", folder)
        with server.running(*kept) as running:
            await _speak(running.url, said)
            memory = await _speak(running.url, said * (_FROM_MEMORY // _SENTENCES))
        with server.running(*kept, "--cache-memory-bytes", "0") as running:
            disk = await _speak(running.url, said)
    return [_first_frame_row("memory", memory), _first_frame_row("disk", disk)]


async def _speak(url: str, said: list[str]) -> list[Stats]:
    stats = []
    async with Talk(url) as talk:
        for text in said:
            heard = await talk.speak([text], lead_ms=0)
            assert heard.done is not None
            stats.append(heard.done.stats)
    return stats


def _first_frame_row(tier: str, stats: list[Stats]) -> Row:
    hits = sum(one.cache_hits for one in stats) / sum(one.segments for one in stats)
    took_ms = [(one.wait_ms or 0) + (one.engine_ms or 0) + (one.send_ms or 0) for one in stats]
    p50, p95 = percentiles(took_ms)
    return Row(
        f"a segment out of the cache ({tier}): from its being known to its first frame",
        f"p50 {p50:.2f}, p95 {p95:.2f} ms over {len(stats)} utterances, {hits:.0%} hits",
        "p95 ≤ 3 ms",
        p95 <= 3 and hits == 1,
        {"p50_ms": p50, "p95_ms": p95},
    )


def cpu(rounds: int = 3) -> list[Row]:
    """Key, file, checks and clip, against hibari making the same segment; both in one thread's CPU time."""
    said = random.Random(3).sample(texts.sentences(), _SENTENCES)
    engine = find("hibari")
    bare = Bare()
    facts, info = engine.identify(Source()), engine.info
    voice = info.voices[0].voice_id
    request = Request(text="", language="en-US", voice=voice, seed=derived_seed(voice, facts.checkpoint))
    made_s = found_s = 0.0
    with tempfile.TemporaryDirectory() as path:
        folder = Folder(Path(path))
        for text in said:
            digest = clip_key(replace(request, text=text), facts, info, voice).digest
            begin_s = time.process_time()
            samples = bare.samples(text)
            made_s += time.process_time() - begin_s
            folder.write(digest, encode(digest, Clip(samples, (), facts.sample_rate_hz)))
        for text in said * rounds:
            begin_s = time.process_time()
            digest = clip_key(replace(request, text=text), facts, info, voice).digest
            assert folder.read(digest) is not None
            found_s += (time.process_time() - begin_s) / rounds
    bare.unload()
    ratio = made_s / found_s
    return [
        Row(
            "CPU of making a segment with hibari over CPU of finding it on disk and checking it",
            f"{ratio:.0f}x ({1000 * made_s / len(said):.1f} against {1000 * found_s / len(said):.2f} ms a segment)",
            "≥ 50x",
            ratio >= 50,
            {"ratio": ratio},
        )
    ]
