"""VoxCPM and dots behind a real server: listeners beside each other, clones, caps, text that grows, and a hang-up."""

import importlib.util
from collections.abc import Awaitable, Callable, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest

WHY = "the extras voxcpm and dots aren't installed here; make test-engines has them"
pytest.importorskip("torch", reason=WHY)
if not all(map(importlib.util.find_spec, ("voxcpm", "dots_tts"))):
    pytest.skip(WHY, allow_module_level=True)

import anyio  # noqa: E402 - after what it may be skipped for

from protocol.messages import Audio, Cancel, Done, End, Error, Open, Segment, Text  # noqa: E402
from tests.engines import tiny_dots, tiny_voxcpm  # noqa: E402
from tests.voices.recordings import encoded  # noqa: E402
from tests.ws_server.running import Running, Speaker, running  # noqa: E402

TEXTS = (
    "Good morning, everyone.",
    "The train is late again, and nobody knows why. Ask at the desk.",
    "It rains. It pours. The old man is snoring. Nobody can wake him up before the morning comes.",
)

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def voxcpm(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tiny_voxcpm.make_checkpoint(tmp_path_factory.mktemp("voxcpm"))
    return {"voxcpm": {"path": str(folder), "device": "cpu", "steps_per_token": 0.5}}


@pytest.fixture(scope="module")
def dots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tiny_dots.make_checkpoint(tmp_path_factory.mktemp("dots"), takes_text_while_it_speaks=True)
    return {"dots": {"path": str(folder), "device": "cpu", "optimize": False, "steps": 1}}


@pytest.fixture(scope="module")
def whole_dots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tiny_dots.make_checkpoint(tmp_path_factory.mktemp("dots"))
    return {"dots": {"path": str(folder), "device": "cpu", "optimize": False, "steps": 1}}


def in_a_loop_of_its_own(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Fixtures are made before it runs: a checkpoint is many files, which nobody may write on a loop."""

    @wraps(test)
    def run(**fixtures: Any) -> None:
        anyio.run(partial(test, **fixtures))

    return run


@pytest.fixture
def engines(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(request.getfixturevalue(request.param))


def serving(engines: dict[str, Any], folder: Path) -> Any:
    (name,) = engines
    return running(engine=name, engines=engines, voices_dir=folder)


async def until_over(client: Speaker) -> list[Any]:
    messages: list[Any] = []
    with anyio.fail_after(120):
        while not any(isinstance(one, Done | Error) for one in messages):
            messages.append(await client.receive())
    assert not [one for one in messages if isinstance(one, Error)], messages
    return messages


async def said(server: Running, text: str, **fields: Any) -> list[Any]:
    async with server.speak() as client:
        await client.send(Open(id="a", seed=7, lead_ms=0, **fields), Text(id="a", text=text), End(id="a"))
        return await until_over(client)


def sound(messages: Sequence[Any]) -> bytes:
    return b"".join(bytes(one.pcm) for one in messages if isinstance(one, Audio))


async def at_once(server: Running, texts: Sequence[str], **fields: Any) -> list[bytes]:
    heard = [b""] * len(texts)

    async def listen(number: int) -> None:
        heard[number] = sound(await said(server, texts[number], **fields))

    async with anyio.create_task_group() as tasks:
        for number in range(len(texts)):
            tasks.start_soon(listen, number)
    return heard


@pytest.mark.parametrize("engines", ["voxcpm", "whole_dots", "dots"], indirect=True)
@in_a_loop_of_its_own
async def test_three_listeners_at_once_hear_what_each_would_hear_alone(
    engines: dict[str, Any], tmp_path: Path
) -> None:
    async with serving(engines, tmp_path) as server:
        alone = [sound(await said(server, text)) for text in TEXTS]
        assert len(set(alone)) == len(TEXTS)
        assert all(alone)
        assert await at_once(server, TEXTS) == alone


@pytest.mark.parametrize("engines", ["voxcpm", "whole_dots"], indirect=True)
@in_a_loop_of_its_own
async def test_who_hangs_up_in_mid_speech_leaves_nothing_in_the_next_ones_ears(
    engines: dict[str, Any], tmp_path: Path
) -> None:
    async with serving(engines, tmp_path) as server:
        fresh = sound(await said(server, TEXTS[0]))
        for polite in (True, False):
            async with server.speak() as client:
                await client.send(Open(id="a", seed=3), Text(id="a", text=TEXTS[2]), End(id="a"))
                await client.receive_until(Audio)
                if polite:
                    await client.send(Cancel(id="a"))
                    assert (await client.receive_done()).reason == "cancelled"
            assert sound(await said(server, TEXTS[0])) == fresh


@in_a_loop_of_its_own
async def test_an_uploaded_voice_speaks_in_the_ways_that_it_allows(
    voxcpm: dict[str, Any], tmp_path: Path
) -> None:
    noise = np.random.default_rng(1).standard_normal(3 * 24000) * 0.1
    async with serving(voxcpm, tmp_path) as server:
        heard = []
        for fields in ({}, {"ref_text": "What was said here."}):
            answer = await server.http.post(
                "/v1/voices", files={"audio": ("a.wav", encoded(noise))}, data=fields, timeout=60
            )
            assert answer.status_code == 201, answer.text
            voice = str(answer.json()["voice_id"])
            heard += [sound(await said(server, TEXTS[0], voice=voice)) for _ in range(2)]
        assert heard[0] == heard[1] != heard[2] == heard[3]


@in_a_loop_of_its_own
async def test_s15_a_long_text_is_made_in_generations_that_voxcpm_speaks_well(
    voxcpm: dict[str, Any], tmp_path: Path
) -> None:
    text = (
        "One. Two. Three. Four. Five. Six. " + "And then a long one that goes on and on, " * 4 + "to its end."
    )
    async with serving(voxcpm, tmp_path) as server:
        segments = [one for one in await said(server, text) if isinstance(one, Segment)]
        parts = [text[one.start_char : one.end_char] for one in segments]
        assert " ".join(part.strip() for part in parts) == text
        assert max(len(part.strip()) for part in parts) <= 80
        assert max(part.count(".") for part in parts) <= 3


@in_a_loop_of_its_own
async def test_dots_speaks_before_its_sentence_is_written(dots: dict[str, Any], tmp_path: Path) -> None:
    text = "She sells sea shells by the sea shore every day of the year"
    async with serving(dots, tmp_path) as server, server.speak() as client:
        await client.send(Open(id="a", seed=7, lead_ms=0))
        words = [f"{word} " for word in text.split(" ")]
        for word in words[:7]:
            await client.send(Text(id="a", text=word))
        early = await client.receive_until(Audio)
        for word in words[7:]:
            await client.send(Text(id="a", text=word))
        await client.send(End(id="a"))
        messages = early + await until_over(client)
        ends = [one.end_char for one in messages if isinstance(one, Segment)]
        assert ends == sorted(ends)
        assert ends[-1] >= len(text) > ends[0]
        assert sound(messages) == sound(await said(server, f"{text} "))
