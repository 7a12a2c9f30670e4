"""`saystream bench`: more and more listeners until they hear gaps, and so how many a server can hold."""

import argparse
import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from saystream import address
from saystream.errors import CannotConnect
from saystream.load import replies
from saystream.load.crowd import Plan, Report, listen
from saystream.load.link import LinkRefusedError
from saystream.load.listener import opening

_FACTOR = 1.5
_CLOSE_ENOUGH = 0.05


def main(options: argparse.Namespace) -> int:
    where = address.parse(options.url)
    texts = replies.own() if options.corpus is None else replies.read(Path(options.corpus))
    wanted = {"engine": options.engine, "voice": options.voice}
    fields = {name: value for name, value in wanted.items() if value is not None}

    def measure(listeners: int) -> Report:
        plan = Plan(
            url=where.socket_url,
            key=options.key,
            opening=opening(**fields),
            replies=texts,
            listeners=listeners,
            seconds=options.seconds,
            tokens_per_s=options.tokens_per_s,
        )
        report = run(plan)
        _say(report.line())
        return report

    try:
        if options.listeners is not None:
            return 0 if measure(options.listeners).held else 1
        held = most(options.start, lambda listeners: measure(listeners).held)
    except (OSError, LinkRefusedError) as error:
        raise CannotConnect(f"no connection to {where.socket_url}: {error}") from error
    _say(
        f"this server holds {held} listeners at once" if held else "not even one listener went without a gap"
    )
    return 0


def run(plan: Plan) -> Report:
    """In a loop of its own, uvloop where there is one: it costs a third."""
    try:
        import uvloop
    except ImportError:  # not on Windows
        return asyncio.run(listen(plan))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(listen(plan))


def most(start: int, holds: Callable[[int], bool]) -> int:
    """The largest number that holds, to 5 %, if holding only ever stops with more; 0: not even one."""
    low, high = 0, max(1, start)
    while holds(high):
        low, high = high, int(high * _FACTOR) + 1
    while high - low > max(1, _CLOSE_ENOUGH * low):
        middle = (low + high) // 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
