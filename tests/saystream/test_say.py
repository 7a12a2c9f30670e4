"""The command as a user runs it, against the fake server."""

import asyncio
import io
import signal
import sys
import wave
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import pytest

from protocol.messages import Cancel, Open, Text
from tests.fakes.server import RATE_HZ, SAMPLES_PER_CHAR, FakeServer, hum

QUIET_S = 20


async def saystream(*arguments: str, stdin: int | None = None) -> Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "saystream", *arguments), stdin=stdin, stdout=PIPE, stderr=PIPE
    )


async def run(*arguments: str, text: bytes | None = None) -> tuple[int, bytes, str]:
    process = await saystream(*arguments, stdin=PIPE if text is not None else asyncio.subprocess.DEVNULL)
    async with asyncio.timeout(QUIET_S):
        out, err = await process.communicate(text)
    assert process.returncode is not None
    return process.returncode, out, err.decode()


async def test_a_text_becomes_a_wav_file_with_its_length(server: FakeServer, tmp_path: Path) -> None:
    path = tmp_path / "out.wav"
    status, out, err = await run("say", "Hello world", "--url", server.url, "-o", str(path), "--voice", "hum")
    assert (status, out, err) == (0, b"", "")
    with wave.open(str(path)) as reader:
        assert reader.getframerate() == RATE_HZ
        assert reader.readframes(reader.getnframes()) == hum(0, 11 * SAMPLES_PER_CHAR)
    (opened,) = server.received_of(Open)
    assert isinstance(opened, Open)
    assert (opened.voice, opened.lead_ms) == ("hum", 0)


async def test_standard_input_becomes_wav_on_standard_output(server: FakeServer) -> None:
    status, out, _ = await run("say", "--url", server.url, "-o", "-", text="Grüße".encode())
    assert status == 0
    assert out[:4] == b"RIFF"
    with wave.open(io.BytesIO(out)) as reader:
        assert reader.getframerate() == RATE_HZ
    assert out.endswith(hum(0, 5 * SAMPLES_PER_CHAR))


async def test_raw_samples_have_no_header(server: FakeServer) -> None:
    _, out, _ = await run("say", "abc", "--raw", "-o", "-", "--url", server.url)
    assert out == hum(0, 3 * SAMPLES_PER_CHAR)


async def test_text_is_spoken_while_it_comes(server: FakeServer) -> None:
    process = await saystream("say", "-", "--raw", "-o", "-", "--url", server.url, stdin=PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    async with asyncio.timeout(QUIET_S):
        process.stdin.write(b"one")
        assert await process.stdout.readexactly(6 * SAMPLES_PER_CHAR) == hum(0, 3 * SAMPLES_PER_CHAR)
        process.stdin.write(b"two")
        await process.stdout.readexactly(6 * SAMPLES_PER_CHAR)
        process.stdin.close()
        assert await process.wait() == 0
    assert [message.text for message in server.received if isinstance(message, Text)] == ["one", "two"]
    await process.communicate()


async def test_ctrl_c_cancels_and_tells_what_was_heard(server: FakeServer) -> None:
    process = await saystream("say", "-", "--raw", "-o", "-", "--url", server.url, stdin=PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    async with asyncio.timeout(QUIET_S):
        process.stdin.write(b"Hello")
        await process.stdout.readexactly(10 * SAMPLES_PER_CHAR)
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
    assert process.returncode == 130
    assert "heard 5 characters in 0.1 s: Hello" in err.decode()
    assert len(server.received_of(Cancel)) == 1


async def test_a_reader_that_leaves_ends_it_without_a_traceback(server: FakeServer) -> None:
    process = await saystream("say", "-", "-o", "-", "--url", server.url, stdin=PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    async with asyncio.timeout(QUIET_S):
        process.stdin.write(b"x" * 20_000)
        await process.stdout.read(100)
        process.stdout._transport.close()  # type: ignore[attr-defined]
        err = await process.stderr.read() if process.stderr is not None else b"?"
        assert await process.wait() == 1
    assert b"Traceback" not in err
    process.stdin.close()


async def test_verbose_prints_where_the_time_went(server: FakeServer, tmp_path: Path) -> None:
    status, _, err = await run("say", "Hi", "-v", "--url", server.url, "-o", str(tmp_path / "a.raw"))
    assert status == 0
    assert "first audio after" in err
    assert "ttfa_ms=-" in err
    assert (tmp_path / "a.raw").read_bytes() == hum(0, 2 * SAMPLES_PER_CHAR)


async def test_a_refusal_is_one_clear_line(server: FakeServer, tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    status, _, err = await run("say", "Hi", "--voice", "nobody", "--url", server.url, "-o", str(path))
    assert (status, err) == (1, "saystream: no such voice (unknown_voice)\n")
    assert not path.exists()


async def test_a_cut_connection_is_told_with_what_was_heard(server: FakeServer, tmp_path: Path) -> None:
    status, _, err = await run("say", server.cut_at_word, "--url", server.url, "-o", str(tmp_path / "a.wav"))
    assert status == 3
    assert "the connection was lost after 0 characters" in err


async def test_no_server_is_one_clear_line(unused_port: int, tmp_path: Path) -> None:
    url = f"127.0.0.1:{unused_port}"
    status, _, err = await run("say", "Hi", "--url", url, "-o", str(tmp_path / "a.wav"))
    assert status == 3
    assert "saystream serve" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "arguments", [["say", "--format", "mp3", "x"], ["nonsense"], [], ["say", "x", "--url", "ftp://x"]]
)
async def test_wrong_use_has_a_status_of_its_own(arguments: list[str]) -> None:
    status, _, err = await run(*arguments)
    assert status == 2
    assert "Traceback" not in err
