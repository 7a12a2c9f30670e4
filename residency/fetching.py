"""Brings what a unit needs here in a thread that nobody waits for: lanes go on meanwhile."""

import logging
import threading
from collections.abc import Callable

from residency.errors import without_frames
from residency.units import Unit

log = logging.getLogger(__name__)


def fetch_apart(unit: Unit, done: Callable[[Exception | None], None]) -> None:
    """`done` is called by that thread, with what went wrong if something did."""
    # A daemon: a download that hangs mustn't keep the process.
    threading.Thread(target=_fetch, args=(unit, done), name=f"fetch {unit.name}", daemon=True).start()


def _fetch(unit: Unit, done: Callable[[Exception | None], None]) -> None:
    failure: Exception | None = None
    try:
        unit.fetch()
    except Exception as error:
        log.exception("what %s needs couldn't be fetched", unit.name)
        failure = without_frames(error)
    done(failure)
