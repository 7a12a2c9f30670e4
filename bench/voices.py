"""What a thousand uploaded voices cost a server that starts, and one that runs."""

import io
import json
import statistics
import tempfile
import time
import urllib.request
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import soundfile

from bench import server
from bench.row import Row
from voices.library import Library
from voices.making import Upload, make_voice
from voices.objects import Objects
from voices.reading import Bounds
from voices.voice import Traits, voice_id_of

_RATE_HZ = 24000
_STARTS = 3
_LISTS = 50
_MORE_S = 1.0
_MORE_BYTES = 10_000_000
"""Ten kilobytes for each voice's description; their recordings alone are a hundred times that."""


@dataclass(frozen=True, slots=True)
class _Cost:
    start_s: float
    rss_bytes: int
    rss_after_lists_bytes: int
    list_s: float


def thousand(voices: int = 1000) -> list[Row]:
    with tempfile.TemporaryDirectory() as empty, tempfile.TemporaryDirectory() as full:
        _fill(Path(full), voices)
        none, many = _cost(Path(empty)), _cost(Path(full))
    more_s = many.start_s - none.start_s
    more_bytes = many.rss_after_lists_bytes - none.rss_after_lists_bytes
    growth_bytes = many.rss_after_lists_bytes - many.rss_bytes
    return [
        Row(
            f"start with {voices} voices",
            f"{more_s:+.2f} s (median of {_STARTS} starts each: {none.start_s:.2f} s, {many.start_s:.2f} s)",
            f"<= +{_MORE_S:g} s",
            more_s <= _MORE_S,
            {"none_s": none.start_s, "many_s": many.start_s},
        ),
        Row(
            f"memory with {voices} voices",
            f"{more_bytes / 1e6:+.1f} MB; {growth_bytes / 1e6:+.1f} MB over {_LISTS} lists of them",
            f"<= +{_MORE_BYTES / 1e6:.0f} MB",
            more_bytes <= _MORE_BYTES,
            {"none_bytes": none.rss_after_lists_bytes, "many_bytes": many.rss_after_lists_bytes},
        ),
        Row(f"a list of {voices} voices", f"{many.list_s * 1e3:.0f} ms p50", "", None),
    ]


def _cost(folder: Path) -> _Cost:
    starts = []
    for _ in range(_STARTS):
        began_s = time.perf_counter()
        with server.running("--engine", "tone", "--voices-dir", str(folder)) as running:
            starts.append(time.perf_counter() - began_s)
            _list(running.http_url)
            rss_bytes = running.rss_bytes
            lists = [_list(running.http_url) for _ in range(_LISTS)]
            after_bytes = running.rss_bytes
    return _Cost(statistics.median(starts), rss_bytes, after_bytes, statistics.median(lists))


def _list(url: str) -> float:
    began_s = time.perf_counter()
    with urllib.request.urlopen(f"{url}/v1/voices", timeout=30) as answer:  # noqa: S310 - our own server
        json.load(answer)
    return time.perf_counter() - began_s


def _fill(folder: Path, voices: int) -> None:
    library = Library(Objects(folder))
    samples = 0.1 * np.random.default_rng(0).standard_normal(2 * _RATE_HZ)
    file = io.BytesIO()
    soundfile.write(file, samples, _RATE_HZ, format="WAV")
    first = make_voice(library, Upload(audio=file, name="0", traits=Traits()), Bounds(), now_s=0.0).voice
    clip = library.clip(first.voice_id)
    for number in range(1, voices):
        traits = Traits(transcript=f"number {number}")
        voice_id = voice_id_of(traits, clip, None)
        library.add(
            replace(first, voice_id=voice_id, traits=traits, name=str(number), created_s=float(number)),
            clip,
            None,
        )
