"""The line that tells a terminal how the speaking goes."""

import time
from typing import TextIO

from protocol.messages import Done, HeardText, Queued

_EVERY_S = 0.1


class Progress:
    """Writes nothing but results where the stream is no terminal."""

    def __init__(self, stream: TextIO, *, verbose: bool) -> None:
        self._stream = stream
        self._verbose = verbose
        self._live = stream.isatty()
        self._fed_at_s: float | None = None
        self._first_audio_ms: float | None = None
        self._shown_at_s = 0.0
        self._shown = False

    def fed(self) -> None:
        if self._fed_at_s is None:
            self._fed_at_s = time.monotonic()

    def queued(self, message: Queued) -> None:
        place = "" if message.position is None else f", place {message.position}"
        self._show("loading the engine" if message.reason == "loading" else f"waiting for a free slot{place}")

    def audio(self, audio_s: float) -> None:
        now_s = time.monotonic()
        if self._first_audio_ms is None and self._fed_at_s is not None:
            self._first_audio_ms = 1000 * (now_s - self._fed_at_s)
        if now_s - self._shown_at_s >= _EVERY_S:
            self._shown_at_s = now_s
            self._show(f"{self._first()}{audio_s:.1f} s of speech")

    def done(self, done: Done, audio_s: float) -> None:
        self.clear()
        if self._live or self._verbose:
            self._print(f"{self._first()}{audio_s:.1f} s of speech, {done.chars} characters")
        if self._verbose:
            stats = {name: getattr(done.stats, name) for name in done.stats.__struct_fields__}
            self._print("  ".join(f"{name}={_plain(value)}" for name, value in stats.items()))

    def interrupted(self, text: str, heard: HeardText) -> None:
        self.clear()
        self._print(
            f"heard {heard.end_char} characters in {heard.played_ms / 1000:.1f} s: {text[: heard.end_char]}"
        )

    def clear(self) -> None:
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = False

    def _first(self) -> str:
        return "" if self._first_audio_ms is None else f"first audio after {self._first_audio_ms:.0f} ms, "

    def _show(self, line: str) -> None:
        if self._live:
            self._stream.write(f"\r\x1b[K{line}")
            self._stream.flush()
            self._shown = True

    def _print(self, line: str) -> None:
        self._stream.write(f"{line}\n")


def _plain(value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.1f}"
