import asyncio
import threading

import pytest

from engines.async_library import LibraryLoop


def test_what_is_called_runs_on_one_loop_in_a_thread_of_its_own() -> None:
    loop = LibraryLoop("test")

    async def where() -> tuple[int, asyncio.AbstractEventLoop]:
        await asyncio.sleep(0)
        return threading.get_ident(), asyncio.get_running_loop()

    first, second = loop.call(where), loop.call(where)
    assert first == second
    assert first[0] != threading.get_ident()
    loop.end()


def test_what_it_raises_comes_back() -> None:
    loop = LibraryLoop("test")

    async def wrong() -> None:
        raise ValueError("no such voice")

    with pytest.raises(ValueError, match="no such voice"):
        loop.call(wrong)
    loop.end()


def test_its_end_cancels_what_still_runs_and_waits_for_its_cleaning_up() -> None:
    loop = LibraryLoop("test")
    begun = threading.Event()
    cleaned: list[str] = []

    async def forever() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append("yes")

    future = loop.run(forever())
    assert begun.wait(10)
    loop.end()
    assert cleaned == ["yes"]
    assert future.cancelled()
    loop.end()
