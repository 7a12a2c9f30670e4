"""What an operator can do to engines over HTTP."""

import asyncio
from typing import Any

import anyio
import pytest

from protocol.messages import Audio, Done, End, Flush, Flushed, Open, Queued, Text
from tests.ws_server.http.test_endpoints import check
from tests.ws_server.running import ADMIN_KEY, KEYS, SPEAK_KEY, Running, running

ADMIN = {"authorization": f"Bearer {ADMIN_KEY}"}
SPEAK = {"authorization": f"Bearer {SPEAK_KEY}"}


async def row(server: Running, name: str = "tone") -> dict[str, Any]:
    rows: list[dict[str, Any]] = (await server.http.get("/v1/engines", headers=ADMIN)).json()["engines"]
    return next(one for one in rows if one["name"] == name)


async def post(server: Running, verb: str, name: str = "tone", **params: str) -> Any:
    answer = await server.http.post(f"/v1/engines/{name}/{verb}", params=params, headers=ADMIN, timeout=30)
    check(f"/v1/engines/{{name}}/{verb}", "post", answer)
    return answer


async def test_s33_a_row_tells_what_is_really_loaded() -> None:
    async with running(engines={"tone": {"sample_rate_hz": 16000}}) as server:
        loaded = await row(server)
        assert (loaded["state"], loaded["resident"], loaded["policy"]) == ("ready", True, "SOFT_PIN")
        assert (loaded["checkpoint"], loaded["sample_rate_hz"]) == ("tone-1-16000", 16000)
        other = await row(server, "hibari")
        assert (other["state"], other["resident"], other["policy"]) == ("unloaded", False, "UNPINNED")
        assert other["checkpoint"], "known without loading it"


async def test_s9_an_engine_is_loaded_and_unloaded_when_told_to_and_the_list_shows_it() -> None:
    async with running() as server:
        loaded = await post(server, "load", "hibari")
        assert (await row(server, "hibari"))["resident"]
        assert (loaded.status_code, loaded.json()["state"]) == (200, "ready")
        gone = await post(server, "unload", "hibari")
        assert (gone.status_code, gone.json()["state"]) == (200, "unloaded")
        assert not (await row(server, "hibari"))["resident"]
        assert (await post(server, "unload", "hibari")).status_code == 200


async def test_a_pinned_engine_is_not_unloaded() -> None:
    async with running() as server:
        refused = await post(server, "unload")
        assert refused.status_code == 409
        assert "pinned (SOFT_PIN)" in refused.json()["error"]["message"]
        assert (await post(server, "unpin")).json()["policy"] == "UNPINNED"
        assert (await post(server, "unload")).json()["resident"] is False
        pinned = (await post(server, "pin")).json()
        assert (pinned["policy"], pinned["state"]) == ("HARD_PIN", "ready")
        assert (await post(server, "unload")).status_code == 409


async def test_an_engine_that_speaks_is_busy_and_can_be_drained() -> None:
    async with running(engines={"tone": {"step_ms": 80, "policy": "UNPINNED"}}) as server:
        async with server.speak() as speaker:
            await speaker.send(Open(id="a", engine="tone", lead_ms=500))
            # One segment: for a second one the engine would be loaded again.
            await speaker.send(Text(id="a", text="Extraordinarily long-winded."))
            await speaker.send(Flush(id="a", mark=1))
            await speaker.receive_until(Audio)
            refused = await post(server, "unload")
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "busy")
            drained = await post(server, "unload", drain="true")
            assert (drained.status_code, drained.json()["state"]) == (200, "draining")
        async with asyncio.timeout(20):
            while (await row(server))["resident"]:  # noqa: ASYNC110 - as a client finds out
                await asyncio.sleep(0.05)


async def test_an_utterance_speaks_on_when_its_engine_was_unloaded_between_two_texts() -> None:
    engines = {"tone": {"step_ms": 80, "policy": "UNPINNED"}}
    async with running(engines=engines) as server, server.speak() as speaker:
        await speaker.send(Open(id="a", engine="tone"), Text(id="a", text="One. "), Flush(id="a", mark=1))
        await speaker.receive_until(Flushed)
        assert (await post(server, "unload", drain="true")).status_code == 200
        async with asyncio.timeout(20):
            while (await row(server))["resident"]:  # noqa: ASYNC110 - as a client finds out
                await asyncio.sleep(0.05)
        await speaker.send(Text(id="a", text="Two."), End(id="a"))
        later = await speaker.receive_until(Done)
    assert any(isinstance(message, Audio) for message in later)
    assert not any(isinstance(message, Queued) for message in later)
    assert isinstance(later[-1], Done)
    assert later[-1].reason == "complete"


async def test_an_unknown_engine_and_a_wrong_word_are_refused() -> None:
    async with running(engines={"tone": {"policy": "UNPINNED"}}) as server:
        assert (await post(server, "load", "flute")).status_code == 404
        assert (await post(server, "unload", drain="perhaps")).status_code == 422


async def test_an_engine_that_cannot_be_loaded_says_why() -> None:
    async with running(engines={"tone": {"fails_to_load": True}}, ready=False) as server:
        for verb in ("load", "pin"):
            refused = await post(server, verb)
            assert refused.status_code == 503
            assert refused.json()["error"]["message"] == "tone was told to fail to load"
        failed = await row(server)
        assert (failed["state"], failed["policy"]) == ("failed", "SOFT_PIN")
        assert failed["last_error"] == "tone was told to fail to load"


async def test_of_two_who_pin_at_once_what_cannot_be_loaded_neither_leaves_it_pinned() -> None:
    engines = {"tone": {"fails_to_load": True, "load_s": 0.2, "policy": "UNPINNED"}}
    async with running(engines=engines, ready=False) as server:
        refused: list[int] = []

        async def pin() -> None:
            refused.append((await post(server, "pin")).status_code)

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(pin)
        assert refused == [503, 503, 503]
        assert (await row(server))["policy"] == "UNPINNED"


@pytest.mark.parametrize("verb", ["load", "unload", "pin", "unpin"])
async def test_only_an_admin_may(verb: str) -> None:
    async with running(keys=KEYS) as server:
        path = f"/v1/engines/tone/{verb}"
        assert (await server.http.post(path)).status_code == 401
        assert (await server.http.post(path, headers=SPEAK)).status_code == 403
        foreign = {**ADMIN, "origin": "https://elsewhere.example"}
        assert (await server.http.post(path, headers=foreign)).status_code == 403


async def test_a_hosted_engine_speaks_like_any_other_and_its_process_goes_with_it() -> None:
    async with running(engines={"tone": {"process": "hosted", "policy": "UNPINNED"}}) as server:
        assert (await row(server))["state"] == "ready"
        said = await server.http.post("/v1/tts", json={"text": "Hello there."}, headers=ADMIN, timeout=30)
        assert said.status_code == 200
        assert len(said.content) > 24000
        assert (await post(server, "unload")).json()["state"] == "unloaded"
