"""What a terminal is told while somebody waits for an engine."""

import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from saystream.download_line import DownloadLine, amount


class Terminal(io.StringIO):
    def __init__(self, *, tty: bool = True) -> None:
        super().__init__()
        self._tty = tty
        self.written = threading.Event()

    def isatty(self) -> bool:
        return self._tty

    def write(self, text: str) -> int:
        self.written.set()
        return super().write(text)


@pytest.fixture
def asked() -> threading.Event:
    return threading.Event()


@pytest.fixture
def url(asked: threading.Event) -> Iterator[str]:
    rows = [
        {"name": "other", "download": {"file": "no", "done_bytes": 1}},
        {"name": "kokoro", "download": {"file": "o/k\x1b.onnx", "done_bytes": 31e6, "total_bytes": 92e6}},
    ]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.set()
            data = json.dumps({"engines": rows}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"ws://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_what_is_fetched_for_the_engine_is_one_line_that_goes_when_the_wait_is_over(url: str) -> None:
    terminal = Terminal()
    with DownloadLine(url, None, "kokoro", terminal):
        assert terminal.written.wait(10)
    shown = terminal.getvalue().split("\r\x1b[K")
    assert shown[1].startswith("fetching o/k")
    assert shown[1].endswith(".onnx: 31 of 92 MB")
    assert "\x1b" not in "".join(shown)
    assert shown[-1] == ""


def test_nothing_is_asked_or_written_where_there_is_no_terminal(url: str, asked: threading.Event) -> None:
    pipe = Terminal(tty=False)
    with DownloadLine(url, None, "kokoro", pipe):
        pass
    assert pipe.getvalue() == ""
    assert not asked.is_set()


def test_a_server_that_does_not_answer_is_no_reason_to_fail() -> None:
    terminal = Terminal()
    with DownloadLine("ws://127.0.0.1:9", None, "kokoro", terminal):
        pass
    assert terminal.getvalue() == ""


def test_a_size_that_nobody_has_said_is_left_out() -> None:
    assert amount({"file": "a", "done_bytes": 31e6}) == "31 MB"
