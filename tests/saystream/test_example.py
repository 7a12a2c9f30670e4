"""The example back end runs as it says."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

from protocol.messages import Cancel, Open
from tests.fakes.server import FakeServer

EXAMPLE = Path(__file__).parents[2] / "examples" / "assistant_backend.py"


async def test_a_second_question_interrupts_the_first_answer(server: FakeServer, tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(EXAMPLE), "--url", server.url, "--output", str(tmp_path / "audio")),
        stdin=PIPE,
        stdout=PIPE,
    )
    assert process.stdin is not None
    async with asyncio.timeout(30):
        process.stdin.write(b"One?\n")
        await server.until(lambda: len(server.received) > 5)
        process.stdin.write(b"Two?\n")
        process.stdin.close()
        assert process.stdout is not None
        printed = (await process.stdout.read()).decode().splitlines()
        assert await process.wait() == 0
    assert [line.split(";")[0] for line in printed] == ["[replaced", "[complete"]
    first, second = server.received_of(Open)
    assert isinstance(first, Open)
    assert isinstance(second, Open)
    assert second.replaces == first.id
    assert server.received_of(Cancel) == []
    assert (tmp_path / "audio").stat().st_size > 0
