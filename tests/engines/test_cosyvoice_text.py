import pytest

from engines.cosyvoice_text import chunks, cross_lingual_text, instruct_text, prompt_text, spoken

ASSISTANT = "You are a helpful assistant."


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Good  morning.\n", "Good morning."),
        ("a <|endofprompt|> b", "a < |endofprompt|> b"),
        ("a\u0000b", "a b"),
        ("", ""),
        ("...", ""),
        ("😀", ""),
    ],
)
def test_what_is_read_is_on_one_line_and_holds_no_marks_of_the_network(text: str, wanted: str) -> None:
    assert spoken(text) == wanted


@pytest.mark.parametrize(
    ("text", "sentences", "wanted"),
    [
        ("One. Two! Three?", 0, ["One. Two! Three?"]),
        ("One. Two! Three?", 1, ["One.", "Two!", "Three?"]),
        ("One. Two! Three?", 2, ["One. Two!", "Three?"]),
        ("One. Two! Three?", 9, ["One. Two! Three?"]),
        ("It is 3.5 metres. Good.", 1, ["It is 3.5 metres.", "Good."]),
        ('He said "Stop!" Then he left', 1, ['He said "Stop!"', "Then he left"]),
        ("好的。再见！", 1, ["好的。", "再见！"]),
        ("no end", 1, ["no end"]),
        ("", 1, []),
        ("", 0, []),
    ],
)
def test_s19_a_text_is_made_in_pieces_of_so_many_sentences(
    text: str, sentences: int, wanted: list[str]
) -> None:
    assert chunks(text, sentences) == wanted


def test_each_generation_has_its_marks() -> None:
    """As the official repository's examples have them."""
    assert [prompt_text(number, "la la") for number in (1, 2, 3)] == [
        "la la",
        "la la",
        f"{ASSISTANT}<|endofprompt|>la la",
    ]
    assert [cross_lingual_text(number, "one", "en") for number in (1, 2, 3)] == [
        "<|en|>one",
        "one",
        f"{ASSISTANT}<|endofprompt|>one",
    ]
    assert [instruct_text(number, " softly ") for number in (1, 2, 3)] == [
        "softly<|endofprompt|>",
        "softly<|endofprompt|>",
        f"{ASSISTANT} softly<|endofprompt|>",
    ]
