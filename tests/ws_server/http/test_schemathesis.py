"""Every endpoint, asked with what its description allows and with what it forbids, answers as it promises."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.checks import positive_data_acceptance
from schemathesis.specs.openapi.checks import ignored_auth

from tests.serving import Server, serving
from tests.ws_server.running import ADMIN_KEY
from ws_server.http.openapi import describe_api

API = schemathesis.openapi.from_dict(describe_api("0"))
LASTING = API.exclude(path="/drain")
"""The other ends the server."""
HEADERS = {"authorization": f"Bearer {ADMIN_KEY}"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("voices")
    flags = ("--engine", "tone", "--keys", f"ops:admin:{ADMIN_KEY}", "--voices-dir", str(folder))
    with serving(*flags) as server:
        yield server


@LASTING.parametrize()
@settings(max_examples=30, suppress_health_check=list(HealthCheck), deadline=None)
def test_every_endpoint_answers_as_described(case: Case[Any], server: Server) -> None:
    # Which voices, engines, options and languages there are isn't in the description.
    case.call_and_validate(
        base_url=server.url,
        headers=HEADERS,
        excluded_checks=[positive_data_acceptance, ignored_auth],
        timeout=60,
    )
