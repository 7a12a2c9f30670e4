import time

import anyio
import pytest

from tests.ws_server.running import running
from ws_server.lag import PERIOD_S, watch_lag


async def test_a_loop_that_was_held_up_is_late_by_as_much() -> None:
    late: list[float] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch_lag, late.append)
        await anyio.wait_all_tasks_blocked()
        time.sleep(3 * PERIOD_S)  # noqa: ASYNC251 - this is the fault
        while not late:
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert late[0] == pytest.approx(2 * PERIOD_S, abs=PERIOD_S)


async def test_it_is_among_the_metrics() -> None:
    async with running() as server:
        text = ""
        with anyio.fail_after(20):
            while 'saystream_loop_lag_seconds_bucket{le="1.0"} 1.0' not in text:
                text = (await server.http.get("/metrics")).text
