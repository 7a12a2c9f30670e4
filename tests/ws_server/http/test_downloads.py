"""An engine whose weights are on a hub, through a real server: progress, and whatever can go wrong on the way."""

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from anyio import to_thread

from engines import hub as files
from protocol.messages import End, Error, Open, Text
from tests.fakes import fetching
from tests.fakes.distribution import install
from tests.fakes.hub import COMMIT, REPO, Hub, hub_here
from tests.serving import ROOT, Server, serving
from tests.ws_server.http.test_engines import post, row
from tests.ws_server.running import Running, running

constants = pytest.importorskip(
    "huggingface_hub.constants",
    reason="no extra that uses the hub is installed here; make test-engines has them",
)
FILE = "weights.bin"
HALF = len(fetching.WEIGHTS) // 2
PROCESSES = pytest.mark.parametrize("process", ["inline", "hosted"])


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """With the engine installed, its cache here and in the processes of hosted engines."""
    installed, cache = tmp_path / "site", tmp_path / "cache"
    install(installed, fetching.NAME, fetching.TARGET)
    monkeypatch.syspath_prepend(installed)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    monkeypatch.setenv("PYTHONPATH", f"{installed}{os.pathsep}{ROOT}")
    with hub_here() as here:
        here.content[FILE] = fetching.WEIGHTS
        here.large.add(FILE)
        yield here


def table(hub: Hub, **changes: str) -> dict[str, Any]:
    return {"endpoint": hub.url, "file": FILE, "revision": COMMIT} | changes


@asynccontextmanager
async def served(hub: Hub, **changes: str) -> AsyncIterator[Running]:
    async with running(engine="tone", engines={fetching.NAME: table(hub, **changes)}) as server:
        yield server


async def speak(server: Running, engine: str) -> int:
    body = {"text": "Hello there.", "engine": engine}
    return (await server.http.post("/v1/tts", json=body, timeout=30)).status_code


@PROCESSES
async def test_how_far_a_download_is_can_be_seen_and_others_speak_meanwhile(hub: Hub, process: str) -> None:
    hub.gate.clear()
    async with served(hub, process=process) as server:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(post, server, "load", fetching.NAME)
            told = await half_way(server)
            assert told["state"] == "loading"
            assert told["download"] == {
                "file": f"{REPO}/{FILE}",
                "done_bytes": told["download"]["done_bytes"],
                "total_bytes": len(fetching.WEIGHTS),
            }
            assert told["download"]["done_bytes"] <= HALF
            assert await speak(server, "tone") == 200
            assert "download" not in await row(server, "tone")
            hub.gate.set()
        loaded = await row(server, fetching.NAME)
        assert loaded["state"] == "ready"
        assert "download" not in loaded
        assert await speak(server, fetching.NAME) == 200


async def half_way(server: Running) -> dict[str, Any]:
    with anyio.fail_after(20):
        while True:
            told = await row(server, fetching.NAME)
            if told.get("download", {}).get("done_bytes"):
                return told
            await anyio.sleep(0.02)


@PROCESSES
@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"revision": "v9"}, "it has no revision 'v9'"),
        ({"file": "missing.bin"}, "there is no such file"),
        ({"file": "damaged.bin"}, "is damaged and was removed"),
        ({"file": "other.bin"}, "the weights aren't whole"),
    ],
)
async def test_what_cannot_be_fetched_or_used_is_a_typed_error_and_others_are_untouched(
    hub: Hub, process: str, changes: dict[str, str], cause: str
) -> None:
    hub.content |= {"damaged.bin": b"weights", "other.bin": b"of another engine"}
    hub.damaged.add("damaged.bin")
    async with served(hub, process=process, **changes) as server:
        refused = await post(server, "load", fetching.NAME)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "engine_unavailable")
        assert cause in refused.json()["error"]["message"]
        assert cause in (await row(server, fetching.NAME))["last_error"]
        assert (await row(server, fetching.NAME))["state"] == "failed"
        assert await speak(server, fetching.NAME) == 503
        assert await speak(server, "tone") == 200
        assert (await server.http.get("/readyz")).status_code == 200
    if changes.get("file") != "other.bin":
        assert await to_thread.run_sync(files.cached, REPO, changes.get("file", FILE), COMMIT) is None


async def test_after_what_was_wrong_is_mended_it_is_loaded(hub: Hub) -> None:
    hub.damaged.add(FILE)
    async with served(hub) as server:
        assert (await post(server, "load", fetching.NAME)).status_code == 503
        hub.damaged.clear()
        assert (await post(server, "load", fetching.NAME)).json()["state"] == "ready"


def in_small_cache(cache: Path) -> tuple[str, ...]:
    """What runs a command with a file system of 8 MB for its cache; skips where none can be mounted."""
    mount = f"mount -t tmpfs -o size=8m none {cache}"
    prefix = ("unshare", "--map-root-user", "--mount", "sh", "-c", f'{mount} && exec "$@"', "sh")
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    return prefix


def of_limited_files(_cache: Path) -> tuple[str, ...]:
    """What runs a command whose files can't be larger than 8 MB."""
    return ("sh", "-c", 'ulimit -f 16384 && exec "$@"', "sh")


@PROCESSES
@pytest.mark.parametrize(
    ("limited", "cause"),
    [(in_small_cache, "No space left on device"), (of_limited_files, "File too large")],
)
async def test_a_disk_that_is_full_is_a_typed_error_and_others_are_untouched(
    hub: Hub, tmp_path: Path, process: str, limited: Any, cause: str
) -> None:
    cache, config = tmp_path / "cache", tmp_path / "saystream.toml"
    cache.mkdir(exist_ok=True)
    lines = [f'{name} = "{value}"' for name, value in table(hub, process=process).items()]
    config.write_text("\n".join(['engine = "tone"', f"[engines.{fetching.NAME}]", *lines]))
    with serving("--config", str(config), prefix=limited(cache)) as server:
        refused = await asked(server, f"/v1/engines/{fetching.NAME}/load")
        assert refused.status_code == 503
        assert cause in refused.json()["error"]["message"]
        assert (await asked(server, "/v1/tts", {"text": "Hello there."})).status_code == 200


async def asked(server: Server, path: str, body: Any = None) -> Any:
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as client:
        return await client.post(path, json=body)


async def test_a_voice_that_cannot_be_fetched_is_unavailable_says_why_and_the_others_speak(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIBARI_HOME", str(tmp_path))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    async with running(engine="hibari") as server:
        body = {"text": "Hello there.", "voice": "kore"}
        refused = await server.http.post("/v1/tts", json=body, timeout=30)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "engine_unavailable")
        assert "hibari's voice 'kore' couldn't be loaded" in refused.json()["error"]["message"]
        async with server.speak() as talk:
            await talk.send(Open(id="a", voice="kore"), Text(id="a", text="Hello there."), End(id="a"))
            told = (await talk.receive_until(Error))[-1]
            assert isinstance(told, Error)
            assert told.code == "engine_unavailable"
        assert await speak(server, "hibari") == 200
