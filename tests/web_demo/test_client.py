"""The browser client in a real browser against the real server, without the page."""

import http.server
import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.listening import transcribe, word_error_rate
from tests.serving import Server, free_port, serving
from tests.web_demo.browsing import Visit

pytestmark = [pytest.mark.browser, pytest.mark.real_voice]

TEXT = "The train leaves at nine, from the second platform, and it stops in every small town."
START = """async () => {
  const { SpeechClient } = await import("/client.js");
  globalThis.client = new SpeechClient();
  await client.unlock();
  globalThis.pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  globalThis.until = async (holds) => { while (!holds()) await pause(20); };
}"""


@pytest.fixture
def there(opened: Callable[..., Visit], server: Server) -> Visit:
    """A page of the server with a client of the test's own."""
    seen = opened(server.url)
    seen.page.evaluate(START)
    return seen


def heard_words(seen: Visit) -> str:
    recording = seen.recording()
    return transcribe(recording.samples, recording.rate_hz)


def test_a_pause_holds_the_sound_and_loses_none_of_it(there: Visit) -> None:
    found = there.page.evaluate(
        """async (text) => {
          const utterance = client.speak();
          utterance.feed(text).end();
          await until(() => utterance.playedMs > 1200);
          utterance.pause();
          await until(() => utterance.state === "paused");
          const before = utterance.playedMs;
          await pause(1500);
          const after = utterance.playedMs;
          utterance.resume();
          await utterance.played;
          return { before, after, played: utterance.playedMs, received: utterance.receivedMs };
        }""",
        TEXT,
    )
    assert found["after"] == found["before"]
    assert found["played"] == pytest.approx(found["received"], abs=1)
    there.page.wait_for_timeout(300)
    assert word_error_rate(TEXT, heard_words(there)) <= 0.13  # a word may be cut in two by the pause
    reports = [m["state"] for m in there.sent if m["type"] == "played"]
    assert "paused" in reports
    assert "playing" in reports[reports.index("paused") :]


def test_a_suspended_context_is_told_as_paused_and_goes_on_where_it_was(there: Visit) -> None:
    found = there.page.evaluate(
        """async (text) => {
          const utterance = client.speak();
          utterance.feed(text).end();
          await until(() => utterance.playedMs > 1000);
          await client.player.suspend();
          await until(() => utterance.state === "paused");
          const before = utterance.playedMs;
          await pause(1000);
          const after = utterance.playedMs;
          await client.unlock();
          await utterance.played;
          return { before, after, played: utterance.playedMs, received: utterance.receivedMs };
        }""",
        TEXT,
    )
    assert found["after"] - found["before"] < 50
    assert found["played"] == pytest.approx(found["received"], abs=1)
    there.page.wait_for_timeout(300)
    assert word_error_rate(TEXT, heard_words(there)) == 0
    assert "paused" in [m["state"] for m in there.sent if m["type"] == "played"]


def test_offsets_are_counted_as_the_page_counts(there: Visit) -> None:
    text = "😀 One moment please, 👩‍🚀 while I look for the train that you asked about."
    found = there.page.evaluate(
        """async (text) => {
          const utterance = client.speak();
          for (const unit of text.split("")) utterance.feed(unit);
          utterance.end();
          await until(() => utterance.playedMs > 1800);
          const word = utterance.words.findLast(({ startMs }) => startMs <= utterance.playedMs);
          const { end, endChar } = await utterance.stop();
          const slices = { word: text.slice(word.start, word.end), heard: text.slice(0, end) };
          return { ...slices, points: endChar, text: utterance.text };
        }""",
        text,
    )
    assert found["text"] == text
    assert found["word"].strip(" ,.") in text.replace(",", "").replace(".", "").split()
    assert text.startswith(found["heard"])
    assert len(found["heard"]) == found["points"]  # Python counts code points
    # In `done` if frames were still to be sent, else in a message of its own.
    told = [m.get("heard", m) for m in there.received if m["type"] == "heard" or "heard" in m]
    assert [t["end_char"] for t in told] == [found["points"]]
    assert "".join(m["text"] for m in there.sent if m["type"] == "text") == text


def test_a_stop_after_the_last_frame_came_still_says_what_was_heard(there: Visit) -> None:
    found = there.page.evaluate(
        """async (text) => {
          const utterance = client.speak();
          utterance.feed(text).end();
          const { reason } = await utterance.done;
          const { end } = await utterance.stop();
          return { reason, end, state: utterance.state, words: utterance.words.length };
        }""",
        "These few words were sent at once.",
    )
    assert found["reason"] == "complete"
    assert 0 <= found["end"] < len("These few words were sent at once.")
    assert "heard" in [m["type"] for m in there.received]


def test_an_interruption_is_one_message(there: Visit) -> None:
    found = there.page.evaluate(
        """async (text) => {
          const old = client.speak();
          old.feed(text);
          await until(() => old.playedMs > 900);
          const fresh = client.speak({ replaces: old });
          fresh.feed("Never mind, then.").end();
          const { reason, heard } = await old.done;
          await fresh.played;
          return { reason, heard: heard.end, fresh: fresh.result.reason };
        }""",
        TEXT,
    )
    assert found["reason"] == "replaced"
    assert 0 < found["heard"] < len(TEXT)
    assert found["fresh"] == "complete"
    assert "cancel" not in there.types_sent()
    opens = [m for m in there.sent if m["type"] == "open"]
    assert opens[1]["replaces"] == opens[0]["id"]
    assert opens[1]["replaced_played_ms"] > 800
    there.page.wait_for_timeout(300)
    assert "never mind" in heard_words(there).lower()


def test_samples_can_be_had_without_playing_them(there: Visit) -> None:
    found = there.page.evaluate(
        """async () => {
          const utterance = client.speak({ playback: false, sample_rate_hz: 16000 });
          let count = 0;
          let gapless = true;
          utterance.addEventListener("audio", ({ detail }) => {
            gapless &&= detail.atSample === count;
            count += detail.samples.length;
          });
          utterance.feed("Not for the ear.").end();
          const { samples, reason } = await utterance.done;
          await utterance.played;
          return { samples, reason, count, gapless };
        }"""
    )
    assert found["reason"] == "complete"
    assert found["gapless"]
    assert found["count"] == found["samples"] > 8000
    assert there.recording().loud.size == 0


def test_a_refused_open_is_an_end_with_a_reason_and_the_next_works(there: Visit) -> None:
    found = there.page.evaluate(
        """async () => {
          const wrong = await client.speak({ voice: "nobody at all" }).done;
          const right = client.speak({ playback: false });
          right.feed("Yes.").end();
          return { wrong: [wrong.reason, wrong.error.code, wrong.error.param], right: (await right.done).reason };
        }"""
    )
    assert found == {"wrong": ["failed", "unknown_voice", "voice"], "right": "complete"}


def test_a_draining_server_finishes_what_is_open_and_the_client_says_why_it_waits(
    opened: Callable[..., Visit],
) -> None:
    with serving() as leaving:
        seen = opened(leaving.url)
        seen.expected = ("WebSocket connection to", "ERR_CONNECTION_REFUSED", "503")
        seen.page.evaluate(START)
        seen.page.evaluate(
            """async (text) => {
              globalThis.last = client.speak();
              last.feed(text);
              await until(() => last.playedMs > 300);
            }""",
            TEXT,
        )
        leaving.process.send_signal(signal.SIGTERM)
        found = seen.page.evaluate(
            """async () => {
              await pause(300);
              last.feed(" It still takes text.").end();
              const { reason } = await last.done;
              await until(() => client.state === "waiting");
              return { reason, code: client.error.code, retry: client.retryAt > performance.now() - 1000 };
            }"""
        )
    assert found["reason"] == "complete"
    assert found["code"] in ("connection_lost", "unreachable", "shutting_down")
    assert found["retry"]


def test_a_token_is_fetched_for_each_connection(opened: Callable[..., Visit]) -> None:
    with serving("--keys", "page:speak:sixteen-letters-at-least") as locked:
        seen = opened(locked.url)
        seen.expected = ("401", "WebSocket connection to", "ERR_CONNECTION_REFUSED")
        found = seen.page.evaluate(
            """async () => {
              const { SpeechClient } = await import("/client.js");
              let fetched = 0;
              const token = async () => {
                fetched += 1;
                const headers = { Authorization: "Bearer sixteen-letters-at-least" };
                return (await (await fetch("/v1/tokens", { method: "POST", headers })).json()).token;
              };
              const reasons = [];
              for (let i = 0; i < 2; i += 1) {
                const client = new SpeechClient({ token });
                const utterance = client.speak({ playback: false });
                utterance.feed("Yes.").end();
                reasons.push((await utterance.done).reason);
                client.close();
              }
              const without = new SpeechClient();
              await without.connect();
              while (without.state === "connecting") await new Promise((resolve) => setTimeout(resolve, 20));
              return { fetched, reasons, state: without.state, code: without.error.code };
            }"""
        )
    assert found == {
        "fetched": 2,
        "reasons": ["complete", "complete"],
        "state": "refused",
        "code": "unauthorized",
    }


class _Model(http.server.BaseHTTPRequestHandler):
    """Answers like a chat endpoint, slowly, and keeps what it was asked."""

    asked: list[dict[str, Any]]
    words = ("The ", "answer ", "is ", "forty", "-two. ", "Ask ", "me ", "again.")

    def _allow(self) -> None:
        self.send_header("Access-Control-Allow-Origin", "*")
        self.send_header("Access-Control-Allow-Headers", "*")

    def do_OPTIONS(self) -> None:
        self.send_response(204)
        self._allow()
        self.end_headers()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append({"path": self.path, "key": self.headers["Authorization"], **json.loads(body)})
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self._allow()
        self.end_headers()
        for word in self.words:
            delta = json.dumps({"choices": [{"delta": {"content": word}}]})
            self.wfile.write(f"data: {delta}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@contextmanager
def model() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    asked: list[dict[str, Any]] = []
    handler = type("Model", (_Model,), {"asked": asked})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
        thread = threading.Thread(target=web.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{web.server_port}/v1", asked
        web.shutdown()
        thread.join()


def test_the_page_speaks_what_a_model_of_the_users_writes(at_page: Visit) -> None:
    page = at_page.page
    with model() as (url, asked):
        page.get_by_role("radio", name="A model writes").check(force=True)
        page.get_by_text("Ask a model of your own").click()
        page.get_by_label("Endpoint").fill(url)
        page.get_by_label("Model", exact=True).fill("small")
        page.get_by_label("Key, if it wants one").fill("k-1")
        page.get_by_label("Question").fill("What is the answer?")
        page.get_by_role("button", name="Ask").click()
        at_page.wait_for_sound()
        at_page.wait_for_silence()
    assert asked[0]["path"] == "/v1/chat/completions"
    assert asked[0]["key"] == "Bearer k-1"
    assert asked[0]["model"] == "small"
    assert asked[0]["messages"] == [{"role": "user", "content": "What is the answer?"}]
    assert word_error_rate("The answer is forty-two. Ask me again.", heard_words(at_page)) == 0


def test_a_model_that_cannot_be_reached_is_said_in_words(at_page: Visit) -> None:
    at_page.expected = ("ERR_CONNECTION_REFUSED",)
    page = at_page.page
    page.get_by_role("radio", name="A model writes").check(force=True)
    page.get_by_text("Ask a model of your own").click()
    page.get_by_label("Endpoint").fill(f"http://127.0.0.1:{free_port()}/v1")
    page.get_by_label("Model", exact=True).fill("small")
    page.get_by_label("Question").fill("Anyone?")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("alert")).to_contain_text("endpoint couldn't be read")
    expect(page.get_by_role("alert")).to_contain_text("CORS")
