"""What a Piper voice is given to read. Its ids here are its symbols' code points, so that they can be read back."""

import string

import pytest

from engines.vits_text import Reader

SYMBOLS = string.ascii_lowercase + string.digits + " ,.?!;:\u0301"
IDS = {symbol: [ord(symbol)] for symbol in SYMBOLS} | {"^": [1], "_": [0], "$": [2]}


class Letters:
    """Says every word as it is written."""

    def phonemes(self, clause: str) -> str:
        return "".join(c for c in clause.casefold() if c.isalnum() or c == " ")


def read(text: str, language: str = "en") -> list[str]:
    runs = Reader(Letters(), IDS, language).read(text)
    for run in runs:
        assert run[0] == 1
        assert run[-1] == 2
        assert set(run[1:-1:2]) == {0}
    return ["".join(map(chr, run[2:-1:2])).strip() for run in runs]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Hello there, my friend.", "hello there, my friend."),
        ("Is it? Yes! It is: so; there", "is it? yes! it is: so; there"),
        ("Dr. Smith came.", "dr smith came."),
        ("It costs 3.5 or 9,999 now", "it costs 35 or 9999 now"),
        ("At 7:30 pm.", "at 730 pm."),
        ("Wait — what?", "wait, what?"),
        ("So…", "so."),
        ("Really?!", "really?"),
        ("Well...", "well."),
        ('He said: "Well, no." And left.', "he said: well, no. and left."),
        ("(Yes!) ok", "yes! ok"),
    ],
)
def test_marks_that_shape_the_tune_are_kept(text: str, wanted: str) -> None:
    (found,) = read(text)
    assert found == wanted


@pytest.mark.parametrize("text", ["", " ", "...", "—", '""', "?!", "\n"])
def test_nothing_to_say_is_no_run(text: str) -> None:
    assert read(text) == []


def test_symbols_that_the_voice_does_not_know_are_left_out() -> None:
    assert read("añb") == ["anb"]
    assert read("ж") == []


def test_letters_come_apart_from_their_accents() -> None:
    (found,) = read("café")
    assert found == "cafe\u0301"


def test_a_voice_of_letters_needs_no_phonemes() -> None:
    (run,) = Reader(None, IDS, "en").read("Good Day")
    assert "".join(map(chr, run[2:-1:2])).strip() == "good day"


def test_a_long_text_is_several_runs_without_loss() -> None:
    text = " ".join(["word"] * 300)
    runs = read(text)
    assert len(runs) > 1
    assert " ".join(runs) == text
    assert all(len(run) <= 410 for run in runs)


def test_a_word_without_end_is_cut() -> None:
    runs = read("a" * 1000)
    assert "".join(runs) == "a" * 1000
    assert all(len(run) <= 400 for run in runs)
