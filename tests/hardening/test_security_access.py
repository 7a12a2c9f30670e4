"""Who may see and do what: keys, tokens, names of hosts, what strangers learn."""

import stat
from pathlib import Path

import pytest

from tests.voices.recordings import recording
from tests.ws_server.running import ADMIN_KEY, KEYS, SPEAK_KEY, running
from voices.objects import Objects
from ws_server.tokens import NO_LIMITS, TokenStore

REBOUND = {"host": "evil.example:8765"}
"""A page of evil.example, whose name its owner has pointed at this machine: no Origin, since it is its own."""


# Names of hosts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/health", "/metrics", "/v1/voices", "/v1/voices/tone", "/v1/voices/x/audio"]
)
async def test_a_page_that_points_its_own_name_here_reads_nothing_of_anybody(path: str) -> None:
    async with running() as server:
        answer = await server.http.get(path, headers=REBOUND)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
async def test_a_probe_may_call_it_by_any_name(path: str) -> None:
    async with running() as server:
        assert (await server.http.get(path, headers=REBOUND)).status_code == 200


async def test_with_keys_a_server_is_called_by_any_name() -> None:
    async with running(keys=KEYS) as server:
        headers = {"authorization": f"Bearer {ADMIN_KEY}", **REBOUND}
        assert (await server.http.get("/health", headers=headers)).status_code == 200


# What strangers learn ----------------------------------------------------------------------------------------


async def test_who_has_a_voice_here_is_told_only_to_those_with_a_key(tmp_path: Path) -> None:
    async with running(keys=KEYS, voices_dir=tmp_path) as server:
        admin = {"authorization": f"Bearer {ADMIN_KEY}"}
        made = await server.http.post(
            "/v1/voices", headers=admin, files={"audio": recording()}, data={"name": "Ann"}
        )
        voice_id = made.json()["voice_id"]

        async def listed(headers: dict[str, str]) -> set[str]:
            rows = (await server.http.get("/v1/voices", headers=headers)).json()["voices"]
            return {row["voice_id"] for row in rows}

        assert voice_id not in await listed({})
        assert "tone" in await listed({})
        assert voice_id in await listed({"authorization": f"Bearer {SPEAK_KEY}"})
        wrong = await server.http.get("/v1/voices", headers={"authorization": "Bearer wrong"})
        assert wrong.status_code == 401


async def test_why_an_engine_failed_is_told_only_to_those_with_a_key() -> None:
    engines = {"tone": {"fails_to_load": True}}
    async with running(keys=KEYS, engines=engines) as server:

        async def told(path: str, headers: dict[str, str]) -> bool:
            return "told to fail" in (await server.http.get(path, headers=headers)).text

        key = {"authorization": f"Bearer {SPEAK_KEY}"}
        assert await told("/v1/engines", key)
        assert not await told("/v1/engines", {})
        ready = await server.http.get("/readyz")
        assert (ready.status_code, ready.json()) == (503, {"reason": "tone couldn't be loaded"})


async def test_nobody_is_sent_to_where_a_host_header_says() -> None:
    async with running(keys=KEYS) as server:
        answer = await server.http.get("/v1/engines/", headers=REBOUND)
        assert (answer.status_code, "location" in answer.headers) == (404, False)


async def test_no_answer_is_taken_for_another_kind_of_content() -> None:
    async with running(page=True) as server:
        for path in ("/", "/livez", "/v1/voices", "/nowhere", "/v1/speak"):
            answer = await server.http.get(path)
            assert answer.headers.get_list("x-content-type-options") == ["nosniff"], path


def test_recordings_of_people_are_for_the_servers_own_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "voices"
    Objects(folder).put("voices/v/meta.json", b"{}", replace=False)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


# Tokens -------------------------------------------------------------------------------------------------------


def test_tokens_of_one_key_dont_crowd_out_anothers() -> None:
    store = TokenStore(max_tokens=10)
    kept = store.make("quiet", NO_LIMITS, 0)
    for _ in range(100):
        store.make("loud", NO_LIMITS, 0)
    assert store.peek(kept, 1) is not None
    assert len(store) == 11


def test_a_token_is_good_once_and_for_a_minute() -> None:
    store = TokenStore()
    token = store.make("web", NO_LIMITS, 0)
    assert store.spend(token, 59.9) is not None
    assert store.spend(token, 59.9) is None
    late = store.make("web", NO_LIMITS, 0)
    assert store.spend(late, 60) is None
