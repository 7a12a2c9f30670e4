"""The HTTP face: statuses, bodies, roles."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.ws_server.running import ADMIN_KEY, KEYS, SPEAK_KEY, running
from ws_server.app import API_ROUTES, METRICS_ROUTE
from ws_server.http.errors import TABLE, Busy, Problem, describe
from ws_server.http.openapi import describe_api

ADMIN = {"authorization": f"Bearer {ADMIN_KEY}"}
SPEAK = {"authorization": f"Bearer {SPEAK_KEY}"}
API = describe_api("0")


def check(path: str, method: str, answer: Any) -> None:
    """The answer is one that the description promises."""
    promised = API["paths"][path][method]["responses"][str(answer.status_code)]
    for kind, content in promised["content"].items():
        assert answer.headers["content-type"].startswith(kind)
        if kind == "application/json":
            schema = json.loads(json.dumps(content["schema"]).replace("#/components", "#/$defs/components"))
            definitions = json.loads(
                json.dumps(API["components"]).replace("#/components", "#/$defs/components")
            )
            Draft202012Validator({**schema, "$defs": {"components": definitions}}).validate(answer.json())


def test_every_route_is_described_and_nothing_else() -> None:
    routes = {
        (route.path, method.lower())
        for route in (*API_ROUTES, METRICS_ROUTE)
        for method in (route.methods or set()) - {"HEAD"}
    }
    described = {(path, method) for path, methods in API["paths"].items() for method in methods}
    assert described == routes | {("/v1/speak", "get")}


@pytest.mark.parametrize(
    "path",
    ["/livez", "/readyz", "/health", "/metrics", "/v1/engines", "/v1/voices", "/v1/speak", "/openapi.json"],
)
async def test_answers_are_as_described(path: str) -> None:
    async with running() as server:
        check(path, "get", await server.http.get(path))


async def test_a_server_without_work_is_live_ready_and_healthy() -> None:
    async with running(replica="r1") as server:
        assert (await server.http.get("/livez")).status_code == 200
        assert (await server.http.get("/readyz")).status_code == 200
        health = (await server.http.get("/health")).json()
        assert (health["status"], health["replica"], health["in_flight"], health["queued"]) == (
            "ok",
            "r1",
            0,
            0,
        )
        assert health["connections"] == 0
        assert health["memory"]["resident_bytes"] > 1_000_000
        async with server.speak() as client:
            await client.receive()
            assert (await server.http.get("/health")).json()["connections"] == 1


@pytest.mark.parametrize(("method", "path"), [("GET", "/health"), ("GET", "/metrics"), ("POST", "/drain")])
async def test_what_shows_or_changes_the_server_needs_an_admin(method: str, path: str) -> None:
    async with running(keys=KEYS) as server:
        nobody = await server.http.request(method, path)
        assert (nobody.status_code, nobody.json()["error"]["code"]) == (401, "unauthorized")
        assert nobody.headers["www-authenticate"] == "Bearer"
        speaker = await server.http.request(method, path, headers=SPEAK)
        assert (speaker.status_code, speaker.json()["error"]["code"]) == (403, "forbidden")
        assert (await server.http.request(method, path, headers=ADMIN)).status_code in {200, 202}


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/v1/engines", "/v1/voices", "/openapi.json"])
async def test_what_a_balancer_or_a_client_needs_first_needs_no_key(path: str) -> None:
    async with running(keys=KEYS) as server:
        assert (await server.http.get(path)).status_code == 200


@pytest.mark.parametrize("path", ["/drain", "/v1/tokens"])
@pytest.mark.parametrize("header", [{"origin": "https://evil.example"}, {"host": "evil.example"}])
async def test_a_strange_page_changes_nothing(path: str, header: dict[str, str]) -> None:
    async with running() as server:
        assert (await server.http.post(path, headers=header)).status_code == 403
        assert not server.services.sessions.draining
        assert len(server.services.auth.tokens) == 0


async def test_a_listed_origin_may_call_and_read() -> None:
    origin = {"origin": "https://app.example.com"}
    async with running(origins=("https://app.example.com",)) as server:
        made = await server.http.post("/v1/tokens", headers=origin)
        assert made.status_code == 201
        assert made.headers["access-control-allow-origin"] == "https://app.example.com"
        asked = {**origin, "access-control-request-method": "POST"}
        assert (await server.http.options("/v1/tokens", headers=asked)).status_code == 200
        stranger = await server.http.get("/v1/voices", headers={"origin": "https://evil.example"})
        assert "access-control-allow-origin" not in stranger.headers


async def test_voices_are_listed_and_can_be_asked_for_by_engine() -> None:
    async with running() as server:
        voices = (await server.http.get("/v1/voices")).json()["voices"]
        assert {"tone", "hibari"} <= {engine for voice in voices for engine in voice["engines"]}
        of_tone = (await server.http.get("/v1/voices?engine=tone")).json()["voices"]
        assert of_tone
        assert all(voice["engines"] == ["tone"] and voice["kind"] == "builtin" for voice in of_tone)
        missing = await server.http.get("/v1/voices?engine=nothing")
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "unknown_engine")


async def test_engines_are_listed_with_their_state() -> None:
    async with running() as server:
        engines = {row["name"]: row for row in (await server.http.get("/v1/engines")).json()["engines"]}
        assert (engines["tone"]["state"], engines["tone"]["resident"]) == ("ready", True)
        assert (engines["hibari"]["state"], engines["hibari"]["resident"]) == ("unloaded", False)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 201),
        (b"{}", 201),
        (b'{"utterances": 3, "total_chars": 500, "voice": "tone"}', 201),
        (b'{"utterances": "three"}', 422),
        (b'{"utterances": 0}', 422),
        (b'{"total_chars": -1}', 422),
        (b'{"total_chars": 1.5}', 422),
        (b"[]", 422),
        (b"{", 400),
        (b"\xff", 400),
        (b'{"a":' * 800, 400),
        (b" " * 5000, 413),
    ],
)
async def test_a_token_is_made_or_refused_with_the_reason(body: bytes, status: int) -> None:
    async with running() as server:
        answer = await server.http.post("/v1/tokens", content=body)
        assert answer.status_code == status
        check("/v1/tokens", "post", answer)


async def test_an_unknown_path_and_a_wrong_method_are_errors_in_json() -> None:
    async with running() as server:
        lost = await server.http.get("/nothing")
        assert (lost.status_code, lost.json()["error"]["code"]) == (404, "not_found")
        wrong = await server.http.get("/drain")
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (405, "method_not_allowed")
        assert wrong.headers["allow"] == "POST"


async def test_metrics_can_be_switched_off() -> None:
    async with running(metrics=False) as server:
        assert (await server.http.get("/metrics")).status_code == 404


def test_an_unknown_exception_is_a_fault_of_ours_whose_text_stays_here() -> None:
    problem = describe(RuntimeError("a secret path"))
    assert (problem.status, problem.code) == (500, "internal")
    assert "secret" not in problem.message


def test_when_to_come_again_is_said_in_milliseconds_and_whole_seconds() -> None:
    response = Busy("busy", "full", 1.2).response()
    assert response.headers["retry-after"] == "2"
    assert json.loads(bytes(response.body))["error"]["retry_after_ms"] == 1200


@pytest.mark.parametrize("kind", TABLE)
def test_every_row_of_the_table_has_a_status_that_is_an_error(kind: type[Exception]) -> None:
    status, code = TABLE[kind]
    assert 400 <= status < 600
    assert code in API["components"]["schemas"]["Error"]["properties"]["error"]["properties"]["code"]["enum"]
    assert isinstance(describe(Problem(status, code, "x")), Problem)
