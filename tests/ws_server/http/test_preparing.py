"""After an upload the engines that are loaded prepare the voice before somebody speaks with it."""

from pathlib import Path

import anyio
import pytest

from tests.fakes import cloning
from tests.fakes.distribution import install
from tests.ws_server.http.test_voices import on_disk, upload
from tests.ws_server.running import running


async def until_on_disk(folder: Path, beginning: str) -> list[str]:
    with anyio.fail_after(20):
        while True:
            if found := [path for path in on_disk(folder) if path.startswith(beginning)]:
                return found
            await anyio.sleep(0.01)


async def test_a_voice_is_prepared_as_soon_as_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "site", cloning.NAME, cloning.TARGET)
    monkeypatch.syspath_prepend(tmp_path / "site")
    voices = tmp_path / "voices"
    async with running(engine=cloning.NAME, voices_dir=voices) as server:
        voice_id = (await upload(server)).json()["voice_id"]
        (path,) = await until_on_disk(voices, "prompts/")
        assert voice_id in path


async def test_nothing_is_loaded_to_prepare_it_and_an_engine_for_tests_waits_until_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "site", cloning.NAME, cloning.TARGET)
    monkeypatch.syspath_prepend(tmp_path / "site")
    voices = tmp_path / "voices"
    async with running(engine="tone", voices_dir=voices) as server:
        assert (await upload(server)).status_code == 201
        assert server.services.dispatcher.status(cloning.NAME).state == "unloaded"
        assert (await server.http.post("/v1/tts", json={"text": "One."})).status_code == 200
    assert [path for path in on_disk(voices) if path.startswith("prompts/")] == []
