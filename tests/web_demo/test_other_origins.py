"""The client from elsewhere: a page of another origin, a page that is no secure context."""

import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.listening import transcribe, word_error_rate
from tests.serving import Server, free_port, serving
from tests.web_demo.browsing import Visit

pytestmark = [pytest.mark.browser, pytest.mark.real_voice]

TEXT = "The light is on, and the door is open."


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        pass


@contextmanager
def site(folder: Path, port: int) -> Iterator[str]:
    """A web server for `folder`: another origin."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), partial(_Quiet, directory=folder)) as web:
        thread = threading.Thread(target=web.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{port}"
        web.shutdown()
        thread.join()


def test_an_insecure_page_speaks_stops_and_says_what_to_do(
    opened: Callable[..., Visit], server: Server
) -> None:
    seen = opened(f"http://demo.test:{server.port}")
    seen.expected = ("ScriptProcessorNode is deprecated",)  # the recorder's
    page = seen.page
    assert page.evaluate("isSecureContext") is False
    page.get_by_label("Text to speak").press_sequentially("Hello there.", delay=40)
    seen.wait_for_sound()
    assert "end" not in seen.types_sent()
    expect(page.get_by_role("alert")).to_contain_text("--tls-cert")
    page.get_by_label("Speed").focus()
    seen.wait_for_silence()
    page.wait_for_timeout(300)
    recording = seen.recording()
    assert word_error_rate("Hello there.", transcribe(recording.samples, recording.rate_hz)) == 0
    page.get_by_label("Text to speak").press_sequentially(f" {TEXT} {TEXT} {TEXT}", delay=2)
    page.wait_for_timeout(2500)
    page.keyboard.press("Escape")
    expect(page.locator("#heard")).to_contain_text("Heard up to here")
    page.wait_for_timeout(600)
    recording = seen.recording()
    stopped_frame = float(page.evaluate("heardByTest.escapedAt")) * recording.rate_hz
    assert (recording.sounding[-1] - stopped_frame) / recording.rate_hz < 0.1


def test_a_page_of_another_origin_speaks_with_the_client_of_this_one(
    opened: Callable[..., Visit], tmp_path: Path
) -> None:
    port = free_port()
    with serving("--origins", f"http://127.0.0.1:{port}") as friendly, site(tmp_path, port) as origin:
        example = Path("examples/page.html").read_text()
        (tmp_path / "index.html").write_text(example.replace("http://localhost:8765", friendly.url))
        seen = opened(None)
        seen.expected = ("favicon", "ERR_CONNECTION_REFUSED", "WebSocket connection to")
        seen.page.goto(origin)
        seen.page.get_by_role("textbox").fill(TEXT)
        seen.page.get_by_role("button", name="Speak").click()
        seen.wait_for_sound()
        seen.page.wait_for_timeout(3500)
        recording = seen.recording()
        assert seen.page.evaluate("heardByTest.mode") == "worklet"
        assert word_error_rate(TEXT, transcribe(recording.samples, recording.rate_hz)) == 0


def test_a_page_of_an_origin_that_is_not_listed_is_told_so(
    opened: Callable[..., Visit], server: Server, tmp_path: Path
) -> None:
    with site(tmp_path, free_port()) as origin:
        (tmp_path / "index.html").write_text("<!doctype html><title>elsewhere</title>")
        seen = opened(None)
        seen.expected = ("favicon", "403", "WebSocket connection to")
        seen.page.goto(origin)
        error = seen.page.evaluate(
            """async (url) => {
              const { SpeechClient } = await import(`${url}/client.js`);
              const client = new SpeechClient();
              const result = await client.speak().done;
              return { state: client.state, reason: result.reason, error: result.error };
            }""",
            server.url,
        )
        assert error["state"] == "refused"
        assert error["reason"] == "lost"
        assert error["error"]["code"] == "forbidden"
        assert error["error"]["retryable"] is False
