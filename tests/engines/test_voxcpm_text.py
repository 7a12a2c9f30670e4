import pytest

from engines.voxcpm_text import instructed, spoken


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Good morning.", "Good morning."),
        ("two\nlines \t and  gaps", "two lines and gaps"),
        ("a\u0000b", "a b"),
        ("One (two) three.", "One (two) three."),
        ("(One) two.", "One, two."),
        ("(One two.)", "One two."),
        ("（一）二。", "一,二。"),
        ("((One) two) three.", "One, two, three."),
        ("(one", "one"),
        ("", ""),
        ("()", ""),
        ("...", ""),
        ("😀", ""),
    ],
)
def test_what_is_read_is_on_one_line_and_begins_with_no_bracket(text: str, wanted: str) -> None:
    assert spoken(text) == wanted


def test_an_instruction_stands_before_the_text_in_brackets() -> None:
    assert instructed("Hello.", " a calm voice ") == "(a calm voice)Hello."
    assert instructed("Hello.", "  ") == "Hello."
