import pytest

import web_demo
from tests.ws_server.running import KEYS, running

FILES = web_demo.files()


async def test_the_page_is_served_with_a_strict_policy_and_needs_no_key() -> None:
    async with running(page=True, keys=KEYS) as server:
        page = await server.http.get("/")
        assert page.status_code == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
        assert page.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in page.headers


@pytest.mark.parametrize("path", sorted(FILES))
async def test_every_file_of_the_page_is_served_whole(path: str) -> None:
    async with running(page=True) as server:
        answer = await server.http.get(path)
        assert answer.status_code == 200
        assert answer.content == FILES[path].body


@pytest.mark.parametrize("path", sorted(web_demo.SHARED_PATHS & set(FILES)))
async def test_the_client_may_be_imported_by_pages_of_any_origin(path: str) -> None:
    async with running(page=True) as server:
        answer = await server.http.get(path, headers={"origin": "https://app.example.com"})
        assert answer.headers["access-control-allow-origin"] == "*"


async def test_an_unchanged_file_isnt_sent_twice() -> None:
    async with running(page=True) as server:
        first = await server.http.get("/client.js")
        again = await server.http.get("/client.js", headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


async def test_the_page_can_be_switched_off() -> None:
    async with running(page=False) as server:
        assert (await server.http.get("/")).status_code == 404
        assert (await server.http.get("/client.js")).status_code == 404


@pytest.mark.parametrize(
    "path", ["/demo/../../pyproject.toml", "/demo/%2e%2e/__init__.py", "/demo/", "/__init__.py"]
)
async def test_nothing_else_is_served(path: str) -> None:
    async with running(page=True) as server:
        assert (await server.http.get(path)).status_code == 404
