"""Texts of a load."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saystream.load import replies


@given(st.text())
def test_tokens_joined_are_the_reply(reply: str) -> None:
    assert "".join(replies.tokens(reply)) == reply


def test_tokens_are_about_as_long_as_a_models() -> None:
    parts = [part for reply in replies.own() for part in replies.tokens(reply)]
    assert 3 < sum(map(len, parts)) / len(parts) < 6


def test_a_corpus_has_a_reply_a_line(tmp_path: Path) -> None:
    path = tmp_path / "corpus"
    path.write_text("One.\\nTwo.\n\nThree.\n", encoding="utf-8")
    assert replies.read(path) == ("One.\nTwo.", "Three.")


def test_an_empty_corpus_is_refused(tmp_path: Path) -> None:
    (tmp_path / "corpus").write_text("\n")
    with pytest.raises(ValueError, match="holds no replies"):
        replies.read(tmp_path / "corpus")
