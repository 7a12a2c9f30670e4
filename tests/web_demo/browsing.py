"""A page in a real browser, with everything it sends, says and plays on record."""

import base64
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgpack
import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import Browser, BrowserContext, Page, Route, WebSocket

HERE = Path(__file__).resolve().parent
FLAGS = [
    "--no-sandbox",
    "--autoplay-policy=no-user-gesture-required",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    # An intercepted page doesn't count as one from this machine, and may then not call this machine.
    "--disable-features=LocalNetworkAccessChecks",
    "--host-resolver-rules=MAP demo.test 127.0.0.1",
]
LOUD = 0.02
"""Any vowel is louder than this."""

# The recorder's own worklet; what it takes to load it is let past the page's policy, and nothing else.
_WORKLET = """
registerProcessor("recorder-of-the-test", class extends AudioWorkletProcessor {
  #block = new Float32Array(2048);
  #filled = 0;
  process([[left, right = left]]) {
    for (let i = 0; i < 128; i += 1) this.#block[this.#filled + i] = left ? (left[i] + right[i]) / 2 : 0;
    this.#filled += 128;
    if (this.#filled === 2048) {
      this.port.postMessage({ frame: currentFrame + 128 - 2048, samples: this.#block });
      this.#filled = 0;
    }
    return true;
  }
});
"""


@dataclass(frozen=True, slots=True)
class Recording:
    rate_hz: int
    start: int
    """The context's frame at which it begins."""
    samples: NDArray[np.float32]

    @property
    def loud(self) -> NDArray[np.intp]:
        """Frames, by the context's clock, that are surely speech."""
        return np.flatnonzero(np.abs(self.samples) > LOUD) + self.start

    @property
    def sounding(self) -> NDArray[np.intp]:
        """Frames that aren't silence."""
        return np.flatnonzero(np.abs(self.samples) > 1e-4) + self.start


@dataclass(slots=True)
class Visit:
    """One page; `check` fails when the console or the content security policy had anything to say."""

    page: Page
    sent: list[dict[str, Any]] = field(default_factory=list)
    received: list[dict[str, Any]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()
    """Parts of complaints that the test provokes."""

    def recording(self) -> Recording:
        heard = self.page.evaluate("takeHeard()")
        samples = np.frombuffer(base64.b64decode(heard["samples"]), np.float32)
        return Recording(int(heard["rate"]), int(heard["start"]), samples)

    def wait(self, condition: str, timeout_s: float = 20) -> None:
        # Not wait_for_function: it evaluates strings in the page, which the page's policy forbids.
        deadline_s = time.monotonic() + timeout_s
        while not self.page.evaluate(condition):
            assert time.monotonic() < deadline_s, f"never came true: {condition}"
            self.page.wait_for_timeout(20)

    def wait_for_sound(self) -> None:
        self.wait(f"heardByTest.blocks.some(({{samples}}) => samples.some((x) => Math.abs(x) > {LOUD}))")

    def wait_for_silence(self) -> None:
        """Until nothing is played and nothing more is expected."""
        self.wait("document.getElementById('stop').disabled", 60)

    def types_sent(self) -> list[str]:
        return [message["type"] for message in self.sent]

    def check(self) -> None:
        violations = self.page.evaluate("violationsSeenByTest")
        found = [c for c in self.complaints if not any(part in c for part in self.expected)]
        assert [*violations, *found] == []


def visit(browser: Browser, url: str | None, **options: Any) -> Visit:
    context: BrowserContext = browser.new_context(**options)
    page = context.new_page()
    worklet = f"data:text/javascript;base64,{base64.b64encode(_WORKLET.encode()).decode()}"
    page.add_init_script(f"globalThis.recorderOfTheTest = {worklet!r};")
    page.add_init_script(path=HERE / "recorder.js")
    page.route(_may_have_a_policy, _let_recorder_in)
    seen = Visit(page)
    page.on(
        "console",
        lambda message: _complain(seen, message.type, f"{message.text} ({message.location.get('url')})"),
    )
    page.on("pageerror", lambda error: seen.complaints.append(f"uncaught {error}"))
    page.on("websocket", lambda socket: _follow(socket, seen))
    if url is not None:
        page.goto(url)
    return seen


def _may_have_a_policy(address: str) -> bool:
    # A made-up host's page has no worklet, and only the browser can resolve its name.
    parts = urlsplit(address)
    return parts.path == "/" and parts.hostname == "127.0.0.1"


def _let_recorder_in(route: Route) -> None:
    answer = route.fetch()
    policy = answer.headers.get("content-security-policy", "")
    changed = policy.replace("script-src 'self'", "script-src 'self' data:")
    route.fulfill(response=answer, headers={**answer.headers, "content-security-policy": changed})


def _complain(seen: Visit, kind: str, text: str) -> None:
    if kind in ("error", "warning", "assert"):
        seen.complaints.append(f"{kind}: {text}")


def _follow(socket: WebSocket, seen: Visit) -> None:
    socket.on("framesent", lambda data: seen.sent.append(msgpack.unpackb(data)))
    socket.on("framereceived", lambda data: seen.received.append(msgpack.unpackb(data)))
