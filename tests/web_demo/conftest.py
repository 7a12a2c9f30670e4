"""One browser and one server for all tests of the page."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.serving import Server, serving
from tests.web_demo.browsing import FLAGS, Visit, visit

CHROMIUM = "/usr/bin/chromium"


# Its driver keeps an event loop running, in which no other module's tests may find themselves.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The real one with its default engine; also reachable as demo.test."""
    with serving("--hosts", "demo.test") as running:
        yield running


@pytest.fixture
def opened(browser: Browser) -> Iterator[Callable[..., Visit]]:
    """Opens pages; each is checked for complaints and closed at the end."""
    visits: list[Visit] = []

    def open_page(url: str | None, **options: object) -> Visit:
        visits.append(visit(browser, url, **options))
        return visits[-1]

    try:
        yield open_page
        for seen in visits:
            seen.check()
    finally:
        # A page that is left open goes on playing, and slows every test after it.
        for seen in visits:
            seen.page.context.close()


@pytest.fixture
def at_page(opened: Callable[..., Visit], server: Server) -> Visit:
    """The page, connected."""
    seen = opened(server.url)
    seen.wait("document.getElementById('connection').dataset.state === 'open'")
    return seen
