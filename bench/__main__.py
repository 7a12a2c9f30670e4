"""`make bench`: runs the figures, one after the other, and writes results/bench.md and results/bench.json."""

import argparse
import asyncio
import inspect
import sys
from collections.abc import Awaitable, Callable

from bench import cache, capacity, connections, engines, first_audio, lag, slow_reader, soak, voices
from bench.row import Row, write

Figure = Callable[[], list[Row] | Awaitable[list[Row]]]
FIGURES: dict[str, Figure] = {
    "own-share": first_audio.own_share,
    "from-token": first_audio.from_token,
    "without-comma": first_audio.without_comma,
    "eighty": capacity.eighty,
    "at-load": capacity.at_load,
    "listeners": capacity.listeners,
    "two-lanes": capacity.two_lanes,
    "idle": connections.idle_memory,
    "cancel": connections.cancel,
    "stalled": connections.stalled_readers,
    "slow-reader": slow_reader.slow_reader,
    "lag": lag.loop_lag,
    "engines": engines.first_sound,
    "voices": voices.thousand,
    "cache": cache.first_frame,
    "cache-cpu": cache.cpu,
}
LONG: dict[str, Figure] = {"soak": soak.soak}
"""Not among `all`."""


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "figures", nargs="*", metavar="FIGURE", help=f"of {', '.join(FIGURES)} (default: all)"
    )
    names = parser.parse_args(argv).figures or list(FIGURES)
    known = FIGURES | LONG
    if unknown := set(names) - set(known):
        parser.error(f"no such figure: {', '.join(sorted(unknown))}")
    rows: list[Row] = []
    for name in names:
        print(f"{name} ...", flush=True)
        new = _run(known[name])
        for row in new:
            print(" ", row.line(), flush=True)
        rows += new
        write(rows)
    return 0 if all(row.reached is not False for row in rows) else 1


def _run(figure: Figure) -> list[Row]:
    if inspect.iscoroutinefunction(figure):
        return asyncio.run(figure())
    rows = figure()
    assert isinstance(rows, list)
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
