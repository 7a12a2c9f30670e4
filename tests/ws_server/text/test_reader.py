"""What is spoken of Markdown: the words that a Markdown library shows, in its order."""

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.ws_server.text.feeding import segments, spoken

_LIBRARY = MarkdownIt("commonmark").enable(["table", "strikethrough"])
_WORD = regex.compile(r"[\p{L}\p{N}]+")


def _shown(tokens: list[Token]) -> str:
    parts = []
    for token in tokens:
        match token.type:
            case "text" | "code_inline":
                parts.append(token.content)
            case "softbreak" | "hardbreak":
                parts.append("\n")
            case "image" | "inline":
                parts.append(_shown(token.children or []))
                parts.append("\n" if token.type == "inline" else "")
            case _:
                pass
    return "".join(parts)


def shown_words(markdown: str) -> list[str]:
    """The words of a document without its fenced code and HTML. Numbers of lists aren't text to the library."""
    return _WORD.findall(_shown(_LIBRARY.parse(markdown)))


def spoken_words(markdown: str) -> list[str]:
    return _WORD.findall(" ".join(spoken(markdown)))


@pytest.mark.parametrize(
    "document",
    [
        "# A *title*\n\nSome **bold**, _quiet_ and ~~gone~~ text with `code_span(x)`.\n\nA second paragraph.",
        "Setext title\n============\n\nText\n\n---\n\nMore text ***both*** and **_nested_ ones**.",
        "- one item\n- another **item**\n  - nested `item`\n* star item\n+ plus item\n\n> a quote\n> goes on",
        'See [the docs](https://example.com/a_(b)?q=1 "A title") and ![a picture](p.png) and [![in one](a.png)](b).',
        "| Name | Age |\n|:-----|----:|\n| Ann | 41 |\n| Bob Lee | 7 |\n\nAfter the table.",
        "Before\n\n```python\nprint('never spoken')\n```\n\nAfter\n\n~~~\nnor this\n~~~\n\nEnd",
        "A snake_case_name, 2\\*3, an \\_escaped\\_ word, un*frigging*believable and __init__.",
        "An & B &amp; C &lt;tag&gt; &copy; &nope; AT&T",
        "Line one of a paragraph that is wrapped somewhere\nin the middle  \nwith a hard break.",
        '<b>bold</b> and <br/> and <span class="x">span</span>, but 1 < 2 and a<b.',
        "``a `tick` inside`` and `one` and [`code` in a link](/x/).",
        "这是**重点**内容，和*另一个*。\n\n- 第一\n- 第二",
        "[x](/y/) [a [nested] one](u) [not a link] (really)",
        "![](empty.png) text ![alt *bold* alt](<a b.png>) end",
        'Text with [a reference][ref] here.\n\n[ref]: https://example.com "Title"',
        "#hashtag stays, #1 too\n\n#######seven stays",
        "- - nested twice\n- # heading in an item\n\n***\n\ntext",
    ],
)
def test_the_words_are_those_that_a_markdown_library_shows(document: str) -> None:
    assert spoken_words(document) == shown_words(document)


INLINE = [
    "a",
    "bc",
    "D9",
    " ",
    " ",
    "*",
    "**",
    "_",
    "`x y`",
    "~~",
    ". ",
    ", ",
    "(",
    ")",
    "[l k](u/v)",
    "&amp;",
    "é",
]


@given(text=st.lists(st.sampled_from(INLINE), max_size=25).map("".join).map(lambda text: f"Word {text} word"))
def test_the_letters_of_any_line_are_those_that_a_markdown_library_shows(text: str) -> None:
    heard = "".join(segment.speakable for segment in segments(text))
    shown = _shown(_LIBRARY.parse(text))
    assert [char for char in heard if char.isalnum()] == [char for char in shown if char.isalnum()]


def test_no_marker_of_ordinary_markdown_is_spoken() -> None:
    document = "# Title\n\n**Bold** and *it* and `code` and [link](u).\n\n- item\n\n| a | b |\n|---|---|\n| c | d |\n"
    heard = " ".join(spoken(document))
    assert heard == "Title Bold and it and code and link. item a, b c, d"


def test_a_link_never_reaches_an_engine_as_a_pronunciation() -> None:
    assert spoken("The [word](/wɜːd/) is here.") == ["The word is here."]


def test_a_bare_address_is_spoken_without_its_scheme() -> None:
    assert spoken("Go to https://www.example.com/a_b?c=1 today.") == ["Go to www.example.com/a_b?c=1 today."]
    assert spoken("Go to <https://example.com> today.") == ["Go to example.com today."]


def test_odd_spaces_and_invisible_characters_become_plain() -> None:
    assert spoken("a\u00a0b\u2009c\td\u200be\ufefff\u00adg\x00h \u202ei\u202c", plain=True) == [
        "a b c defg h i"
    ]


def test_a_joiner_that_a_script_reads_is_kept() -> None:
    assert spoken("ශ්‍රී", plain=True) == ["ශ්‍රී"]


def test_plain_text_keeps_every_mark() -> None:
    text = "# 2 * 3 _x_ `y` [z](u) <b> &amp; | ~~w~~"
    assert " ".join(spoken(text, plain=True)) == text


def test_fenced_code_that_never_closes_is_left_out() -> None:
    assert spoken("Look:\n```\nx = 1\ny = 2") == ["Look:"]


def test_line_ends_of_other_systems_end_lines() -> None:
    assert spoken("One\r\nTwo\rThree\u2028Four\r\n\r\nFive") == ["One", "Two", "Three", "Four", "Five"]
