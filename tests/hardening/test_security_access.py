"""Who may see and do what: keys, tokens, names of hosts, what strangers learn."""

import logging
import stat
from pathlib import Path

import httpx
import pytest
from starlette.routing import Route
from websockets.exceptions import InvalidStatus

from tests.voices.recordings import recording
from tests.ws_server.running import ADMIN_KEY, KEYS, SPEAK_KEY, running
from voices.objects import Objects
from ws_server.app import API_ROUTES, METRICS_ROUTE
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


# Roles -------------------------------------------------------------------------------------------------------

FOR_ALL = {"/livez", "/readyz", "/v1/engines", "/v1/voices", "/openapi.json"}
FOR_SPEAKERS = {
    "/v1/voices/{voice_id}",
    "/v1/voices/{voice_id}/audio",
    "/v1/tts",
    "/v1/tts/stream",
    "/v1/tokens",
}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")


def allowed(route: Route, method: str, role: str | None) -> bool:
    """By the table of http.md: what changes or shows the server is for admins."""
    if method in {"GET", "HEAD"} and route.path in FOR_ALL:
        return True
    if route.path in FOR_SPEAKERS and method != "DELETE":
        return role is not None
    return role == "admin"


@pytest.mark.parametrize("role", [None, "speak"])
async def test_no_method_of_any_endpoint_gets_round_the_keys(role: str | None) -> None:
    """HEAD, OPTIONS and what nobody has heard of too; an endpoint that is added later is walked as well."""
    headers = {} if role is None else {"authorization": f"Bearer {SPEAK_KEY}"}
    async with running(keys=KEYS) as server:
        before = server.services.dispatcher.policy("tone")
        for route in (*API_ROUTES, METRICS_ROUTE):
            path = route.path.format(voice_id="tone", name="tone")
            for method in METHODS:
                answer = await server.http.request(method, path, headers=headers)
                barred = answer.status_code in {401, 403, 405}
                routes = [
                    one for one in API_ROUTES if one.path == route.path and method in (one.methods or ())
                ]
                if method in (route.methods or ()):
                    assert barred is not allowed(route, method, role), (method, path, answer.status_code)
                elif not routes:
                    assert answer.status_code == 405, (method, path)
        assert not server.services.sessions.draining
        assert server.services.dispatcher.policy("tone") == before


async def test_no_way_of_writing_a_path_gets_round_the_keys() -> None:
    async with running(keys=KEYS) as server:
        for path in (
            *("//health", "/./health", "/%68ealth", "/health?x=1", "/health;x", "/v1/../health", "/HEALTH"),
            *(
                "/health%2f",
                "/health/",
                "/health%00",
                "/health%20",
                "/livez/../health",
                "/livez%2f..%2fhealth",
            ),
        ):
            url = httpx.URL(f"http://127.0.0.1:{server.port}").copy_with(raw_path=path.encode())
            assert (await server.http.get(url)).status_code in {401, 404}, path


async def test_no_other_header_is_taken_for_a_key() -> None:
    async with running(keys=KEYS) as server:
        for header in (
            {"x-forwarded-for": "127.0.0.1"},
            {"forwarded": "for=127.0.0.1"},
            {"x-original-url": "/livez"},
            {"x-rewrite-url": "/livez"},
            {"x-http-method-override": "GET"},
            {"proxy-authorization": f"Bearer {ADMIN_KEY}"},
            {"cookie": f"authorization=Bearer {ADMIN_KEY}"},
            {"authorization": f"Basic {ADMIN_KEY}"},
            {"authorization": ADMIN_KEY},
            {"authorization": "Bearer"},
        ):
            assert (await server.http.post("/drain", headers=header)).status_code == 401, header
        assert not server.services.sessions.draining


async def test_a_stranger_who_claims_to_be_behind_a_proxy_is_logged_by_his_own_address() -> None:
    async with running(keys=KEYS) as server:
        peers = []
        server.services.observer.connection_refused = (  # type: ignore[method-assign]
            lambda peer, status, code: peers.append(peer)
        )
        with pytest.raises(InvalidStatus):
            async with server.speak(additional_headers={"x-forwarded-for": "10.9.8.7"}):
                pass
        assert [peer.rpartition(":")[0] for peer in peers] == ["127.0.0.1"]


@pytest.mark.parametrize("origin", ["https://app.example", "https://App.Example/"])
async def test_a_listed_page_may_read_what_it_may_call_however_its_origin_was_written(origin: str) -> None:
    async with running(keys=KEYS, origins=(origin,)) as server:
        answer = await server.http.get("/v1/engines", headers={"origin": "https://app.example"})
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        assert "access-control-allow-credentials" not in answer.headers


async def test_a_page_that_isnt_listed_may_neither_read_nor_ask_before_it_calls() -> None:
    async with running(keys=KEYS, origins=("https://app.example",)) as server:
        for origin in (
            "https://evil.example",
            "null",
            "https://app.example.evil.example",
            "http://app.example",
        ):
            asked = {"origin": origin, "access-control-request-method": "POST"}
            for answer in (
                await server.http.get("/v1/engines", headers={"origin": origin}),
                await server.http.options("/v1/tts", headers=asked),
            ):
                assert "access-control-allow-origin" not in answer.headers, origin


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


# Who is kept out ----------------------------------------------------------------------------------------------


async def test_whoever_tries_keys_is_counted_and_logged_with_his_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "saystream")
    wrong = {"authorization": "Bearer wrong-wrong-wrong-wrong"}
    async with running(keys=KEYS) as server:
        for method, path in (
            ("GET", "/health"),
            ("POST", "/v1/tts"),
            ("GET", "/v1/speak"),
            ("GET", "/v1/voices"),
        ):
            assert (await server.http.request(method, path, headers=wrong)).status_code == 401
        foreign = {"authorization": f"Bearer {ADMIN_KEY}", "origin": "https://evil.example"}
        assert (await server.http.post("/drain", headers=foreign)).status_code == 403
        assert (await server.http.get("/nowhere", headers=wrong)).status_code == 404
        text = server.services.metrics.text().decode()
    assert 'saystream_requests_refused_total{status="401"} 4.0' in text
    assert 'saystream_requests_refused_total{status="403"} 1.0' in text
    rows = [record.fields for record in caplog.records if record.getMessage() == "request refused"]  # type: ignore[attr-defined]
    assert [row["path"] for row in rows] == ["/health", "/v1/tts", "/v1/speak", "/v1/voices", "/drain"]
    assert {row["peer"].partition(":")[0] for row in rows} == {"127.0.0.1"}
    assert "wrong-wrong" not in caplog.text
