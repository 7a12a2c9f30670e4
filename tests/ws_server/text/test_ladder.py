"""Words, and the best place between two of them."""

import pytest

from ws_server.text import ladder
from ws_server.text.connectors import connectors


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 0),
        ("one two, three", 3),
        ("- — ...", 0),
        ("(really)", 1),
        ("你好吗", 2),
        ("GPT你好", 2),
        ("。你好。", 1),
        ("it’s 3.5", 2),
        ("e\u0301te\u0301", 1),
    ],
)
def test_words_are_counted_as_a_reader_would(text: str, words: int) -> None:
    assert ladder.words(text, 0, len(text)) == words


@pytest.mark.parametrize(
    ("text", "min_words", "before"),
    [
        ("we went home because it rained", 2, "because it rained"),
        ("we went home because it rained", 4, "it rained"),
        ("he sat in the old chair", 1, "in the old chair"),
        ("one two", 3, None),
    ],
)
def test_the_best_place_is_before_a_small_word_that_joins(
    text: str, min_words: int, before: str | None
) -> None:
    place = ladder.best_word(text, 0, len(text), min_words, connectors("en"))
    assert (None if place is None else text[place + 1 :]) == before
