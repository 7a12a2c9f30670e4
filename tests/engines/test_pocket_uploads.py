"""An uploaded clip spoken with by a real cloning engine: at once, and after a restart without preparing it again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

WHY = "the extra pocket isn't installed here; make test-engines has it"
pytest.importorskip("torch", reason=WHY)
pytest.importorskip("pocket_tts", reason=WHY)

import anyio  # noqa: E402 - after what it may be skipped for

from engines.contract import Request, Source  # noqa: E402
from engines.pocket import engine  # noqa: E402
from engines.pocket_model import PocketModel  # noqa: E402
from protocol.messages import Audio, Done, End, Open, Started, Text  # noqa: E402
from tests.engines.speaking import speak  # noqa: E402
from tests.engines.tiny_pocket import make_checkpoint  # noqa: E402
from tests.voices.recordings import encoded  # noqa: E402
from tests.ws_server.running import Running, running  # noqa: E402
from voices.library import Library  # noqa: E402
from voices.objects import Objects  # noqa: E402
from voices.prompts import StoredPrompts  # noqa: E402
from voices.reference import Clone  # noqa: E402

TEXT = "Good morning, everyone."


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    folder = tmp_path_factory.mktemp("pocket")
    (folder / "anna.wav").write_bytes(clip(0))
    return Source(path=str(make_checkpoint(folder)), settings={"voices": {"anna": str(folder / "anna.wav")}})


@pytest.fixture(scope="module")
def model(source: Source) -> Iterator[PocketModel]:
    model = engine.load(source, "cpu")
    yield model
    model.unload()


def clip(number: int) -> bytes:
    return encoded(0.1 * np.random.default_rng(number).standard_normal(2 * 24000))


def settings(source: Source, folder: Path) -> dict[str, Any]:
    return {
        "engine": "pocket",
        "engines": {"pocket": {"path": source.path, **source.settings}},
        "voices_dir": folder,
    }


async def uploaded(server: Running, number: int) -> str:
    answer = await server.http.post("/v1/voices", files={"audio": ("a.wav", clip(number))})
    assert answer.status_code == 201
    assert "pocket" in answer.json()["engines"]
    return str(answer.json()["voice_id"])


async def said(server: Running, voice: str) -> bytes:
    """As it is sent, without loss."""
    opened = Open(id="a", voice=voice, seed=7, format="f32le", lead_ms=0.0)
    async with server.speak() as client:
        await client.send(opened, Text(id="a", text=TEXT), End(id="a"))
        messages = await client.receive_until(Done)
    assert any(isinstance(one, Started) and one.engine == "pocket" for one in messages)
    return b"".join(one.pcm for one in messages if isinstance(one, Audio))


def spoken_by(model: PocketModel, prompt: bytes) -> np.ndarray:
    """The same without a server."""
    request = Request(text=TEXT, language="en-US", voice="any", seed=7)
    return speak(model, request, model.restore(prompt)).samples


async def first_day(source: Source, folder: Path) -> tuple[str, str, bytes]:
    """The ids of two voices, and what was said with the first."""
    async with running(**settings(source, folder)) as server:
        one, other = await uploaded(server, 1), await uploaded(server, 2)
        before = await said(server, one)
        assert await said(server, one) == before
        assert await said(server, other) != before
    return one, other, before


async def next_day(source: Source, folder: Path, voice: str) -> bytes:
    async with running(**settings(source, folder)) as server:
        return await said(server, voice)


@pytest.mark.timeout(300)
def test_an_uploaded_clip_is_spoken_with_and_its_prompt_outlives_a_restart(
    source: Source, model: PocketModel, tmp_path: Path
) -> None:
    one, other, before = anyio.run(first_day, source, tmp_path)
    kept = StoredPrompts(
        Library(Objects(tmp_path)),
        engine="pocket",
        version=engine.info.version,
        checkpoint=engine.identify(source).checkpoint,
    )
    first, second = kept.stored(Clone(one, "audio")), kept.stored(Clone(other, "audio"))
    assert first is not None
    assert second is not None
    # What was sent is what the engine makes of the prompt that was kept, but for the pause at its end.
    heard = np.frombuffer(before, "<f4")
    np.testing.assert_allclose(heard, spoken_by(model, first)[: heard.size], atol=1e-6)
    # The prompt of one becomes that of the other: whoever prepared it again would undo it.
    kept.keep(Clone(one, "audio"), second)
    exchanged = np.frombuffer(anyio.run(next_day, source, tmp_path, one), "<f4")
    np.testing.assert_allclose(exchanged, spoken_by(model, second)[: exchanged.size], atol=1e-6)
