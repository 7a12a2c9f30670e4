"""How many listeners at once without a gap, beside what the bare engine makes in the same run."""

import statistics

from bench import server, texts
from bench.bare import audio_s_per_s, library_audio_s_per_s
from bench.row import Row
from saystream.load.crowd import Plan, Report, listen, percentiles
from saystream.load.listener import opening
from saystream.ramp import most
from saystream.ramp import run as run_plan

_BARE_S = 8.0


def plan(url: str, listeners: int, seconds: float) -> Plan:
    return Plan(
        url=url, key=None, opening=opening(), replies=texts.corpus(), listeners=listeners, seconds=seconds
    )


def held(flags: tuple[str, ...], start: int, seconds: float) -> tuple[int, Report | None]:
    """The most that hear no gap, and the report of it. Whoever is queued or refused isn't held either."""
    best: list[Report] = []

    def holds(listeners: int) -> bool:
        # A server of its own each time: the backlog of a number that was too high would spoil the next.
        with server.running(*flags) as running:
            report = run_plan(plan(running.url, listeners, seconds))
        print("   ", report.line(), flush=True)
        if report.held:
            best.append(report)
        return report.held

    number = most(start, holds)
    return number, next((report for report in best if report.listeners == number), None)


def eighty(number: int = 80, seconds: float = 30) -> list[Row]:
    """As a newcomer would have it: a server with its own settings."""
    with server.running() as running:
        report = run_plan(plan(running.url, number, seconds))
    notes = report.notes
    return [
        Row(
            f"{number} listeners for {seconds:.0f} s at 30 tokens/s, all settings as they come",
            f"{notes.gaps} gaps in {notes.heard_s:.0f} listener-seconds, {notes.queued} times queued; "
            f"generator {100 * report.own_cpu:.0f} % of a core",
            "no gap",
            report.held,
            {"gaps": float(notes.gaps), "heard_s": notes.heard_s, "queued": float(notes.queued)},
        )
    ]


def listeners(runs: int = 3, seconds: float = 20) -> list[Row]:
    segments = texts.segments()
    ours = audio_s_per_s(segments, lanes=1, seconds=_BARE_S)
    bare = library_audio_s_per_s(segments, seconds=_BARE_S)
    numbers = [held(server.OPEN, max(1, int(0.6 * ours)), seconds)[0] for _ in range(runs)]
    number = statistics.median(numbers)
    return [
        Row(
            "listeners at once without a gap, one lane",
            f"{number:.0f} (runs: {', '.join(map(str, sorted(numbers)))}) = {100 * number / bare:.0f} % of "
            f"the {bare:.0f} audio-s/s of the bare engine (the library's own call), "
            f"{100 * number / ours:.0f} % of the {ours:.0f} of ours without a server",
            "≥ 90 %",
            number >= 0.9 * bare,
            {"listeners": number, "bare_audio_s_per_s": bare, "ours_audio_s_per_s": ours},
        )
    ]


def two_lanes(seconds: float = 20) -> list[Row]:
    segments = texts.segments()
    bare_one = audio_s_per_s(segments, lanes=1, seconds=_BARE_S)
    bare_two = audio_s_per_s(segments, lanes=2, seconds=_BARE_S)
    one, _ = held(server.OPEN, max(1, int(0.6 * bare_one)), seconds)
    two, report = held((*server.OPEN, "--engine-threads", "2"), max(1, int(0.6 * bare_two)), seconds)
    ratio, bare_ratio = two / max(1, one), bare_two / bare_one
    generator = 0.0 if report is None else report.own_cpu
    return [
        Row(
            "two lanes against one",
            f"{two} against {one} listeners = {ratio:.2f}x; bare engine {bare_ratio:.2f}x; "
            f"the generator takes {100 * generator:.0f} % of a core",
            "≥ 90 % of the bare ratio",
            ratio >= 0.9 * bare_ratio,
            {"ratio": ratio, "bare_ratio": bare_ratio},
        )
    ]


async def at_load(share: float = 0.8, seconds: float = 30) -> list[Row]:
    """With so many listeners that the lane is busy for `share` of the time: first audio, forced cuts, gaps."""
    bare = audio_s_per_s(texts.segments(), lanes=1, seconds=_BARE_S)
    number = max(1, int(share * bare))
    with server.running(*server.OPEN) as running:
        report = await listen(plan(running.url, number, seconds))
    notes = report.notes
    print("   ", report.line(), flush=True)
    p50, p95 = percentiles([stats.ttfa_ms for stats in notes.stats if stats.ttfa_ms is not None])
    segments = sum(stats.segments for stats in notes.stats)
    forced = sum(stats.forced_cuts for stats in notes.stats)
    forced_share = forced / max(1, segments)
    return [
        Row(
            f"from the token that makes the first cut certain to the first frame, {number} listeners (80 % load)",
            f"p50 {p50:.0f}, p95 {p95:.0f} ms over {len(notes.stats)} replies",
            "p95 ≤ 120 ms",
            p95 <= 120,
            {"p50_ms": p50, "p95_ms": p95},
        ),
        Row(
            "forced cuts at 80 % load",
            f"{forced} of {segments} segments = {100 * forced_share:.1f} %",
            "≤ 2 %",
            forced_share <= 0.02,
            {"share": forced_share},
        ),
        Row(
            f"gaps at 80 % load ({number} listeners, {notes.heard_s:.0f} listener-seconds)",
            f"{notes.gaps}; generator {100 * report.own_cpu:.0f} % of a core, late by {report.late_ms:.0f} ms (p99)",
            "≤ 1 in 10,000 s",
            report.gap_free,
            {"gaps": float(notes.gaps), "heard_s": notes.heard_s},
        ),
    ]
