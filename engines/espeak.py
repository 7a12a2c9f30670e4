"""Phonemes from the system's espeak-ng, a program of its own that is asked over pipes and stays open."""

import os
import re
import secrets
import select
import shutil
import subprocess
from time import monotonic

from engines.contract import EngineError, EngineUnavailable

_ANSWER_S = 5.0
_OTHER_LANGUAGE = re.compile(r"\([a-z-]+\)")
"""espeak-ng's note that a word is read as another language's."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f\[\u200b\u2028\u2029\ufeff]+")
"""Two opening brackets would begin phonemes, which a user's text mustn't be able to give."""


class Espeak:
    """One language's phonemes, a line at a time. Used by one thread; starts its program when it is first asked."""

    def __init__(self, voice: str) -> None:
        self._voice = voice
        self._process: subprocess.Popen[bytes] | None = None
        self._unread = b""

    def phonemes(self, clause: str) -> str:
        """IPA with a space between words; "": nothing in it is spoken. Raises EngineError."""
        line = _CONTROL.sub(" ", clause).strip()
        if not line:
            return ""
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._process is None:
            self._start()
        lines = self._ask(line)
        return " ".join(_OTHER_LANGUAGE.sub("", each).strip() for each in lines if each.strip())

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _start(self) -> None:
        command = [program(), "-q", "--ipa", "-b", "1", "-v", self._voice]
        self._unread = b""
        self._process = subprocess.Popen(  # noqa: S603 - no shell; the voice is the checkpoint's, checked by the caller
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C is for the server, which still has sentences to finish
        )

    def _ask(self, line: str) -> list[str]:
        """The line between a word and itself, a new one each time: no text can look like the end of its answer."""
        around = "".join(secrets.choice("bdfgklmnprstv") + secrets.choice("aeiou") for _ in range(6))
        self._write(f"{around}\n{line}\n{around}")
        end = self._read_line()
        lines: list[str] = []
        while (answer := self._read_line()) != end:
            lines.append(answer)
        return lines

    def _write(self, line: str) -> None:
        if self._process is None or self._process.stdin is None:
            raise EngineError("espeak-ng isn't running")
        try:
            self._process.stdin.write(line.encode() + b"\n")
        except OSError as error:
            self.close()
            raise EngineError(f"espeak-ng has ended: {error.strerror}") from error

    def _read_line(self) -> str:
        """The next that isn't empty. Any trouble ends the program: the next question starts another."""
        if self._process is None or self._process.stdout is None:
            raise EngineError("espeak-ng isn't running")
        until_s = monotonic() + _ANSWER_S
        while True:
            line, found, rest = self._unread.partition(b"\n")
            if found:
                self._unread = rest
                if line.strip():
                    return line.decode("utf-8", "replace").strip()
                continue
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, until_s - monotonic()))
            got = os.read(self._process.stdout.fileno(), 1 << 16) if ready else b""
            if not got:
                self.close()
                raise EngineError("espeak-ng has ended" if ready else "espeak-ng doesn't answer")
            self._unread += got


def program() -> str:
    """Where it is. Raises EngineUnavailable with what helps."""
    found = shutil.which("espeak-ng")
    if found is None:
        raise EngineUnavailable(
            "espeak-ng isn't installed: apt-get install espeak-ng, or brew install espeak-ng"
        )
    return found
