"""Whatever way a text arrives, its segments are the same, and they hold all of its words."""

from itertools import pairwise

import regex
from hypothesis import example, given
from hypothesis import strategies as st

from tests.ws_server.text.feeding import path, segments
from ws_server.text import SegmentRules, TextSegment

PIECES = [
    *"ab Zq.!?,;:*_~`[]()<>|#-+\\\"'“”’…\n\r\t&h0129$%€!=/",
    *[
        "。",
        "！",
        "」",
        "「",
        "，",
        "你好",
        "は",
        "と",
        "؟",
        "،",
        "।",
        "नम",
        "\u0301",
        "\u200d",
        "\u200b",
        "\ufe0f",
        "\u20e3",
    ],
    *["👍", "👨‍👩‍👧", "🇩🇪", "🇩", "1️⃣", "❤️", "e\u0301", "\U0001f3fd", "\u00a0", "\x00", "각", "ᄀ", "ᅡ"],
    *["Dr. ", "Mr. Bean ", "p.m. ", "e.g. ", "3.", "1. ", "It is 3. ", "v1.0.0 ", "$5.3 ", "Then ", "The "],
    *[
        "**",
        "``",
        "```",
        "```\n",
        "\n\n",
        "\n- ",
        "\n* ",
        "\n1. ",
        "# ",
        "| ",
        " | ",
        "---",
        "](",
        "[x](",
        "![",
        "http://",
    ],
    *[
        "https://x.y/z_a",
        "<b>",
        "</b>",
        "<br>",
        "&amp;",
        "me@site.co.uk",
        "snake_case",
        "word ",
        " longer words ",
        ". ",
    ],
    *[
        "and ",
        "because ",
        "Well, ",
        "(really.) ",
        "“Yes.” she ",
        "one two three four five six seven eight nine ten ",
    ],
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)
RULES = st.builds(
    SegmentRules,
    max_chars=st.sampled_from([0, 8, 20, 60, 240]),
    max_sentences=st.sampled_from([0, 1, 3]),
    join_chars=st.sampled_from([0, 20, 80]),
)
LANGUAGES = st.sampled_from(["en", "de-DE", "fr", "zh", "ja", "ar", "hi", "el", "xx"])


def cut_up(text: str, places: list[int]) -> list[str]:
    bounds = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in pairwise(bounds)]


@given(
    text=TEXTS,
    places=st.lists(st.integers(0, 400), max_size=30),
    plain=st.booleans(),
    language=LANGUAGES,
    rules=RULES,
)
@example(text='foo, "\'"\'"\'"\'" bar', places=[], plain=False, language="en", rules=SegmentRules())
def test_any_split_of_a_text_gives_the_same_segments(
    text: str, places: list[int], plain: bool, language: str, rules: SegmentRules
) -> None:
    whole = segments(text, plain=plain, language=language, rules=rules)
    assert segments(*cut_up(text, places), plain=plain, language=language, rules=rules) == whole
    assert segments(*text, plain=plain, language=language, rules=rules) == whole


@given(texts=st.lists(TEXTS, max_size=4), plain=st.booleans())
def test_a_flush_cuts_the_same_however_the_text_before_it_came(texts: list[str], plain: bool) -> None:
    def flushed(increments: list[list[str]]) -> list[TextSegment]:
        open_path = path(plain=plain)
        made: list[TextSegment] = []
        for part in increments:
            made += [segment for increment in part for segment in open_path.feed(increment)]
            made += open_path.flush()
        return made + open_path.end()

    assert flushed([[text] for text in texts]) == flushed([list(text) for text in texts])


@given(text=TEXTS, rules=RULES, language=LANGUAGES)
def test_every_letter_and_digit_of_a_plain_text_is_in_exactly_one_segment(
    text: str, rules: SegmentRules, language: str
) -> None:
    made = segments(text, plain=True, rules=rules, language=language)
    heard = [
        source
        for segment in made
        for char, source in zip(segment.speakable, segment.source_chars, strict=False)
        if char.isalnum()
    ]
    assert heard == [place for place, char in enumerate(text) if char.isalnum()]


WORD_KEEPING = [
    *"ab Z.*_~[]()#-+\n19,!",
    "**",
    "__",
    "`x`",
    "\n- ",
    "\n1. ",
    "**a b**",
    "snake_case",
    "~~x~~",
    " * ",
]


WORD_KEEPING_TEXTS = (
    st.lists(st.sampled_from(WORD_KEEPING), max_size=30)
    .map("".join)
    .filter(lambda text: "](" not in text and "~~~" not in text)
)


@given(text=WORD_KEEPING_TEXTS)
def test_markdown_without_links_and_code_blocks_loses_no_letter_or_digit(text: str) -> None:
    heard = "".join(segment.speakable for segment in segments(text))
    # A reference [a][b] is a link too; a tick box is a drawing.
    if not regex.search(r"\]\[|\[[ xX]?\]", text):
        assert [char for char in heard if char.isalnum()] == [char for char in text if char.isalnum()]


@given(text=TEXTS, plain=st.booleans(), rules=RULES)
def test_segments_lie_in_order_and_map_each_character_back(
    text: str, plain: bool, rules: SegmentRules
) -> None:
    at = 0
    for segment in segments(text, plain=plain, rules=rules):
        assert at <= segment.start_char < segment.end_char <= len(text)
        at = segment.end_char
        assert len(segment.source_chars) == len(segment.speakable) + 1
        assert list(segment.source_chars) == sorted(segment.source_chars)
        assert (segment.source_chars[0], segment.source_chars[-1]) == (segment.start_char, segment.end_char)
        assert segment.speakable == segment.speakable.strip() != ""
        assert regex.search(r"[\p{L}\p{N}]", segment.speakable)
        for char, source in zip(segment.speakable, segment.source_chars, strict=False):
            assert char in {" ", ",", text[source]} or text[source] in "&\\"
        assert len(segment.speakable) <= (rules.max_chars or 2000)


GRAPHEME_PIECES = [
    *[
        "e\u0301",
        "👍🏽",
        "👨‍👩‍👧",
        "🇩🇪",
        "1️⃣",
        "❤️",
        "각",
        "한",
        "नि",
        "क्षि",
        "a",
        "b. ",
        "C",
        " ",
        ", ",
        "。",
        "x\u0301\u0302",
        "“o”. ",
    ],
    *["\r\n", "\u0301", "*e\u0301*", "é\u200d", "word ", "\n"],
]


@given(
    text=st.lists(st.sampled_from(GRAPHEME_PIECES), max_size=40).map("".join),
    plain=st.booleans(),
    rules=RULES,
)
def test_no_cut_tears_a_grapheme(text: str, plain: bool, rules: SegmentRules) -> None:
    bounds = {0, *(found.end() for found in regex.finditer(r"\X", text))}
    for segment in segments(*text, plain=plain, rules=rules):
        assert {segment.start_char, segment.end_char} <= bounds
