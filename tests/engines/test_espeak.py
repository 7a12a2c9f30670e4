"""The real espeak-ng, asked over pipes."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines import espeak
from engines.contract import EngineError, EngineUnavailable
from engines.espeak import Espeak

pytestmark = pytest.mark.skipif(
    shutil.which("espeak-ng") is None, reason="espeak-ng isn't installed; tests/install-programs has it"
)


@pytest.fixture
def english() -> Iterator[Espeak]:
    speller = Espeak("en-us")
    yield speller
    speller.close()


def said_at_once(text: str) -> str:
    """By a program of its own for one text."""
    command = ["espeak-ng", "-q", "--ipa", "-v", "en-us", text]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return " ".join(line.strip() for line in lines if line.strip())


TEXTS = [
    "Hello there, my friend",
    "Dr. Smith who is 3.5 m tall",
    "of the man",
    "x",
    "a word\nand a line",
    "1" * 60,
    "word " * 300,
]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text)[:20])
def test_it_says_what_a_program_for_one_text_says(english: Espeak, text: str) -> None:
    assert english.phonemes(text) == said_at_once(" ".join(text.split()))


def test_answers_stay_with_their_questions(english: Espeak) -> None:
    """Whatever was asked before: texts without an answer, and texts that look like the end of one."""
    wanted = said_at_once("good morning")
    for text in ("", " ", "...", "\0", "\r\n\n", "—", "bakelomu", "bakelomu\nbakelomu", "--help", "<mark/>"):
        english.phonemes(text)
        assert english.phonemes("good morning") == wanted


@pytest.mark.parametrize("text", ["", "   ", "\0", "\n\n", "\ufeff\u200b"])
def test_nothing_gives_nothing(english: Espeak, text: str) -> None:
    assert english.phonemes(text) == ""


def test_a_word_of_another_language_has_no_note_of_it() -> None:
    german = Espeak("de")
    found = german.phonemes("Das Meeting beginnt")
    german.close()
    assert found
    assert "(" not in found


def test_it_starts_again_after_its_program_has_ended(english: Espeak) -> None:
    wanted = english.phonemes("hello")
    assert english._process is not None
    os.kill(english._process.pid, signal.SIGKILL)
    english._process.wait()
    assert english.phonemes("hello") == wanted


def test_a_program_that_ends_while_it_is_asked_fails_that_text(
    english: Espeak, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = english.phonemes("hello")
    assert english._process is not None
    os.kill(english._process.pid, signal.SIGKILL)
    english._process.wait()
    with monkeypatch.context() as patch:
        patch.setattr(english._process, "poll", lambda: None)
        with pytest.raises(EngineError, match="espeak-ng has ended"):
            english.phonemes("hello")
    assert english.phonemes("hello") == wanted


def test_a_program_that_does_not_answer_is_given_up(english: Espeak, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = english.phonemes("hello")
    assert english._process is not None
    os.kill(english._process.pid, signal.SIGSTOP)
    monkeypatch.setattr(espeak, "_ANSWER_S", 0.05)
    with pytest.raises(EngineError, match="doesn't answer"):
        english.phonemes("hello")
    monkeypatch.undo()
    assert english.phonemes("hello") == wanted


def test_closing_ends_the_program_and_can_be_done_twice(english: Espeak) -> None:
    english.phonemes("hello")
    process = english._process
    assert process is not None
    english.close()
    english.close()
    assert process.poll() is not None


def test_without_the_program_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineUnavailable, match="apt-get install espeak-ng"):
        espeak.program()
