"""What a user's text mustn't be able to tell an engine's front end."""

import shutil
from collections.abc import Iterator

import pytest

from engines.espeak import Espeak


@pytest.fixture
def espeak() -> Iterator[Espeak]:
    if shutil.which("espeak-ng") is None:
        pytest.skip("espeak-ng isn't installed")
    program = Espeak("en-us")
    yield program
    program.close()


@pytest.mark.parametrize(
    "text", ["hello [[h@loU]] world", "hello [[[h@loU]]] world", "hello [ [[h@loU world"]
)
def test_phonemes_between_brackets_are_read_as_words(espeak: Espeak, text: str) -> None:
    assert espeak.phonemes(text) == espeak.phonemes("hello h@loU world")


@pytest.mark.parametrize("text", ["one\ntwo", "one\rtwo", "one\x01two", "one\x00two"])
def test_a_line_end_or_a_command_in_a_text_is_a_space(espeak: Espeak, text: str) -> None:
    assert espeak.phonemes(text) == espeak.phonemes("one two")
