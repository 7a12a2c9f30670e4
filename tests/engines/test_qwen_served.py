"""Qwen3-TTS behind a real server: uploaded voices, languages, options and caps as clients meet them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

WHY = "the extra qwen isn't installed here; make test-engines has it"
pytest.importorskip("torch", reason=WHY)
pytest.importorskip("transformers", reason=WHY)

import anyio  # noqa: E402 - after what it may be skipped for

from engines.contract import Source  # noqa: E402
from engines.qwen import engine  # noqa: E402
from protocol.messages import Audio, Done, End, Error, Open, Segment, Started, Text  # noqa: E402
from tests.engines.qwen_library import base_source  # noqa: E402
from tests.engines.tiny_qwen import hummed  # noqa: E402
from tests.voices.recordings import encoded  # noqa: E402
from tests.ws_server.running import Running, running  # noqa: E402
from voices.library import Library  # noqa: E402
from voices.objects import Objects  # noqa: E402
from voices.prompts import StoredPrompts  # noqa: E402
from voices.reference import Clone  # noqa: E402

TEXT = "Good morning, everyone."


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    return base_source(tmp_path_factory.mktemp("qwen"), threads=1)


def settings(source: Source, folder: Path) -> dict[str, Any]:
    return {
        "engine": "qwen",
        "engines": {"qwen": {"path": source.path, "device": "cpu", **source.settings}},
        "voices_dir": folder,
    }


async def uploaded(server: Running, **fields: str) -> str:
    clip = encoded(hummed(3).astype(np.float64))
    answer = await server.http.post("/v1/voices", files={"audio": ("a.wav", clip)}, data=fields, timeout=60)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["voice_id"])


async def said(server: Running, text: str = TEXT, **fields: Any) -> list[Any]:
    values: dict[str, Any] = {"seed": 7, "format": "f32le", "lead_ms": 0.0}
    async with server.speak() as client:
        await client.send(Open(id="a", **(values | fields)), Text(id="a", text=text), End(id="a"))
        messages: list[Any] = []
        while not any(isinstance(one, Done | Error) for one in messages):
            messages.append(await client.receive())
        return messages


def heard(messages: list[Any]) -> bytes:
    assert not [one for one in messages if isinstance(one, Error)]
    return b"".join(one.pcm for one in messages if isinstance(one, Audio))


def refusal(messages: list[Any]) -> tuple[str, str | None]:
    error = next(one for one in messages if isinstance(one, Error))
    return error.code, error.param


async def clones(source: Source, folder: Path) -> list[Clone]:
    async with running(**settings(source, folder)) as server:
        plain = await uploaded(server)
        worded = await uploaded(server, ref_text="What was said here.")
        one, other, own = [heard(await said(server, voice=voice)) for voice in (plain, worded, "anna")]
        assert len({one, other, own}) == 3
        assert heard(await said(server, voice=worded)) == other
        answer = await server.http.post(
            "/v1/voices",
            files={"audio": ("a.wav", b"RIFF")},
            data={"engine": "qwen", "mode": "audio+text"},
        )
        assert (answer.status_code, answer.json()["error"]["param"]) == (422, "ref_text")
        return [Clone(plain, "audio"), Clone(worded, "audio+text")]


async def orders(source: Source, folder: Path) -> None:
    async with running(**settings(source, folder)) as server:
        spoken = [heard(await said(server, language=tag)) for tag in ("en", "en-US", "English")]
        assert spoken[0] == spoken[1] == spoken[2]
        started = next(one for one in await said(server) if isinstance(one, Started))
        assert (started.engine, started.voice) == ("qwen", "anna")
        assert refusal(await said(server, language="sv")) == ("unsupported_language", "language")
        wrong = await said(server, options={"temperature": 9})
        assert refusal(wrong) == ("invalid_option", "options.temperature")
        assert refusal(await said(server, options={"cfg_value": 1})) == (
            "invalid_option",
            "options.cfg_value",
        )
        instructed = await said(server, options={"instruct": "Whisper."})
        assert refusal(instructed) == ("invalid_option", "options.instruct")
        cool = await said(server, options={"temperature": 0, "subtalker_temperature": 0})
        assert heard(cool) != spoken[0]


async def capped(source: Source, folder: Path) -> int:
    body = {"text": "One two. Three four. Five six.", "seed": 7, "max_sentences_per_gen": 1}
    async with running(**settings(source, folder)) as server:
        parts = []
        for cap in (1, 0):
            answer = await server.http.post(
                "/v1/tts", json={**body, "max_sentences_per_gen": cap}, timeout=60
            )
            assert answer.status_code == 200, answer.text
            parts.append(answer.content)
        assert parts[0] != parts[1]
        plain = await said(server, text=str(body["text"]))
        return sum(isinstance(one, Segment) for one in plain)


@pytest.mark.timeout(300)
def test_s12_s23_uploaded_voices_are_cloned_in_the_way_that_they_allow(
    source: Source, tmp_path: Path
) -> None:
    spoken_with = anyio.run(clones, source, tmp_path)
    kept = StoredPrompts(
        Library(Objects(tmp_path)),
        engine="qwen",
        version=engine.info.version,
        checkpoint=engine.identify(source).checkpoint,
    )
    assert all(kept.stored(clone) is not None for clone in spoken_with)


@pytest.mark.timeout(300)
def test_s11_s13_languages_and_options_are_taken_or_refused_by_name(source: Source, tmp_path: Path) -> None:
    anyio.run(orders, source, tmp_path)


@pytest.mark.timeout(300)
def test_s15_a_client_can_cap_the_sentences_of_a_generation(source: Source, tmp_path: Path) -> None:
    assert anyio.run(capped, source, tmp_path) >= 1
