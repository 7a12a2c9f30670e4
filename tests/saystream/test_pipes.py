"""Standard input and output as they come and go."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from saystream import pipes


async def test_increments_come_as_they_are_written_with_torn_characters_joined() -> None:
    reading, writing = os.pipe()
    try:
        source = pipes.increments(reading)
        os.write(writing, b"Gr\xc3")
        assert await anext(source) == "Gr"
        os.write(writing, b"\xbc\xc3\x9fe")
        assert await anext(source) == "üße"
        os.write(writing, b"\xff!\xe2")
        assert await anext(source) == "\ufffd!"
        os.close(writing)
        assert [rest async for rest in source] == ["\ufffd"]
    finally:
        os.close(reading)


async def test_a_file_is_read_as_well(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("from a file", encoding="utf-8")
    fd = os.open(path, os.O_RDONLY)
    try:
        assert "".join([text async for text in pipes.increments(fd)]) == "from a file"
    finally:
        os.close(fd)


async def first(source: AsyncIterator[str]) -> str:
    return await anext(source)


async def test_a_silent_writer_keeps_nobody_from_leaving() -> None:
    reading, writing = os.pipe()
    try:
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(first(pipes.increments(reading)))
            await asyncio.sleep(0)
            waiting.cancel()
        assert waiting.cancelled()
    finally:
        os.close(reading)
        os.close(writing)


async def test_a_stalled_reader_holds_up_the_task_and_not_the_loop() -> None:
    reading, writing = os.pipe()
    data = os.urandom(300_000)
    got = b""
    try:
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(pipes.write(writing, data))
            while len(got) < len(data):
                got += await asyncio.to_thread(os.read, reading, 50_000)
        assert task.done()
        assert got == data
    finally:
        os.close(reading)
        os.close(writing)


async def test_a_reader_that_has_gone_is_told() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(BrokenPipeError):
        await pipes.write(writing, b"x")
    os.close(writing)
