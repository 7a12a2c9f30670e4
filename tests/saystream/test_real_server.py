"""The client and the command against the server itself, with the deterministic engine."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import soundfile

from saystream import Client, Refused, Utterance
from saystream.load import replies
from saystream.load.crowd import Plan, listen
from saystream.load.listener import opening
from tests.saystream.conftest import free_port
from tests.voices.recordings import recording

READY_S = 60
REPLIES = replies.own()


@asynccontextmanager
async def serving(*flags: str) -> AsyncIterator[str]:
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "saystream",
            "serve",
            "--port",
            str(port),
            "--engine",
            "tone",
            "--no-cache",
            *flags,
        ),
        stdout=PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(READY_S):
            await _ready(process)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        async with asyncio.timeout(READY_S):
            await process.communicate()
    assert process.returncode == 0


async def _ready(process: Process) -> None:
    assert process.stdout is not None
    async for line in process.stdout:
        if b"speaks with" in line:
            return
    raise AssertionError("the server ended before it was ready")


@pytest.fixture(scope="module")
async def url() -> AsyncIterator[str]:
    async with serving() as running:
        yield running


async def pcm(utterance: Utterance) -> bytes:
    return b"".join([frame.pcm async for frame in utterance])


async def speak(client: Client, *increments: str, **fields: object) -> bytes:
    async with client.utterance(**fields) as u:  # type: ignore[arg-type]
        for increment in increments:
            await u.feed(increment)
        await u.end()
        return await pcm(u)


TEXT = "It is 3.5 degrees, and that is cold. Take a coat with you! Then we can go."


async def test_any_increments_give_the_same_samples(url: str) -> None:
    async with Client(url) as client:
        whole = await speak(client, TEXT, lead_ms=0)
        letters = await speak(client, *TEXT, lead_ms=0)
    assert len(whole) > 0
    assert letters == whole


async def test_both_encodings_give_the_same_samples(url: str) -> None:
    async with Client(url) as packed, Client(url, json=True) as plain:
        assert await speak(packed, TEXT, lead_ms=0) == await speak(plain, TEXT, lead_ms=0)


async def test_many_utterances_share_a_connection(url: str) -> None:
    async with Client(url) as client, asyncio.TaskGroup() as tasks:
        speeches = [tasks.create_task(speak(client, TEXT, lead_ms=0)) for _ in range(8)]
    lengths = {len(speech.result()) for speech in speeches}
    assert len(lengths) == 1
    assert lengths != {0}


async def test_cancel_tells_what_was_heard_and_the_next_one_speaks(url: str) -> None:
    async with Client(url) as client:
        async with client.utterance(words=True) as u:
            await u.feed(TEXT)
            await anext(aiter(u))
            heard = await u.cancel(played_ms=0)
            assert (heard.end_char, heard.played_ms) == (0, 0)
            assert (await u.done).reason == "cancelled"
        assert await speak(client, "Hello.", lead_ms=0)


async def test_a_barge_in_is_one_message(url: str) -> None:
    async with Client(url) as client, client.utterance() as old:
        await old.feed(TEXT)
        await anext(aiter(old))
        async with client.utterance(replaces=old, lead_ms=0) as new:
            await new.feed("Yes?")
            await new.end()
            assert await pcm(new)
        assert (await old.done).reason == "replaced"


async def test_the_receipt_after_the_end_says_all_was_heard(url: str) -> None:
    async with Client(url) as client, client.utterance(lead_ms=0) as u:
        await u.feed("Hello there.")
        await u.end()
        done = await u.done
        assert (await u.cancel(played_ms=1e6)).end_char == done.chars == 12


async def test_blank_text_ends_well_without_a_sample(url: str) -> None:
    async with Client(url) as client, client.utterance() as u:
        await u.feed(" ... ")
        await u.end()
        assert await pcm(u) == b""
        assert (await u.done).samples == 0


async def test_an_unknown_voice_is_refused(url: str) -> None:
    async with Client(url) as client, client.utterance(voice="nobody") as u:
        with pytest.raises(Refused) as refused:
            await u.done
        assert refused.value.code == "unknown_voice"


async def run(*arguments: str, text: bytes = b"") -> tuple[int, bytes, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "saystream", *arguments), stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    out, err = await process.communicate(text)
    assert process.returncode is not None
    return process.returncode, out, err.decode()


async def test_say_writes_a_file_that_others_read(url: str, tmp_path: Path) -> None:
    path = tmp_path / "out.wav"
    status, _, err = await run(
        *("say", "-", "-v", "--url", url, "-o", str(path), "--rate", "8000", "--format", "mulaw"),
        text=TEXT.encode(),
    )
    assert status == 0, err
    info = soundfile.info(str(path))
    assert (info.samplerate, info.subtype) == (8000, "ULAW")
    assert info.frames > 8000
    assert "segments=" in err


async def test_engines_and_voices_are_listed(url: str) -> None:
    status, out, err = await run("engines", "--url", url)
    assert status == 0, err
    assert "tone" in out.decode()
    status, out, err = await run("voices", "--url", url)
    assert status == 0, err
    assert len(out.splitlines()) > 1


async def test_a_voice_is_added_spoken_with_and_removed(tmp_path: Path) -> None:
    (tmp_path / "ann.wav").write_bytes(recording(frequency_hz=700))
    async with serving("--voices-dir", str(tmp_path / "voices")) as url:
        status, out, err = await run(
            "voices", "add", str(tmp_path / "ann.wav"), "--name", "Ann", "--url", url, "--language", "English"
        )
        assert status == 0, err
        voice_id, *findings = out.decode().splitlines()
        assert findings[0].startswith("4.0 s at 24000 Hz, speech -17 dBFS")
        assert findings[-1] == "engines that can use it: tone"
        status, out, err = await run("voices", "list", "--url", url)
        assert out.decode().splitlines()[-1].split() == [voice_id, "Ann", "uploaded", "en", "tone"], err
        status, out, err = await run(
            "say", "One two three.", "--voice", voice_id, "-o", str(tmp_path / "a.wav"), "--url", url
        )
        assert status == 0, err
        assert soundfile.info(str(tmp_path / "a.wav")).frames > 8000
        assert (await run("voices", "remove", voice_id, "--url", url))[0] == 0
        status, out, err = await run("voices", "remove", voice_id, "--url", url)
        assert status == 1
        assert "there is no voice" in err


async def test_a_file_that_cannot_be_a_voice_is_told(tmp_path: Path, url: str) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    status, _, err = await run("voices", "add", str(tmp_path / "notes.txt"), "--url", url)
    assert status == 1
    assert "wav, flac, ogg" in err
    status, _, err = await run("voices", "add", str(tmp_path / "absent.wav"), "--url", url)
    assert status == 1
    assert "absent.wav" in err


async def test_bench_measures_a_given_number(url: str) -> None:
    status, out, err = await run("bench", "--url", url, "--listeners", "2", "--seconds", "4")
    assert status in {0, 1}, out.decode() + err  # a gap is the machine's affair here
    assert b"2 listeners" in out
    assert b"errors" not in out


async def test_eight_listeners_hear_no_gap(url: str) -> None:
    plan = Plan(
        url=f"ws://{url}/v1/speak", key=None, opening=opening(), replies=REPLIES, listeners=8, seconds=5
    )
    for _ in range(3):  # a machine that is busy with something else gets another chance
        report = await listen(plan)
        assert report.notes.errors == []
        assert report.notes.heard_s > 0
        if report.notes.gaps == 0:
            return
    raise AssertionError(report.line())


async def test_keys_are_asked_for(tmp_path: Path) -> None:
    async with serving("--keys", "me:speak:secret-of-mine-and-long") as url:
        status, _, err = await run("say", "Hi", "--url", url, "-o", str(tmp_path / "a.wav"))
        assert (status, "HTTP 401" in err) == (1, True)
        status, _, err = await run(
            "say", "Hi", "--url", url, "-o", str(tmp_path / "a.wav"), "--key", "secret-of-mine-and-long"
        )
        assert status == 0, err


async def test_check_says_that_the_server_would_start() -> None:
    status, out, err = await run("check", "--port", str(free_port()), "--engine", "tone")
    assert status == 0, out.decode() + err
