"""What users of such servers have met; the numbers are those of the list of situations."""

import pytest

from tests.ws_server.text.feeding import path, segments, spoken
from ws_server.text import SegmentRules, unspoken_chars


def test_t1_a_number_that_goes_on_isnt_cut() -> None:
    assert spoken("It is 3.", "5 percent of all of it.") == ["It is 3.5 percent of all of it."]
    assert spoken("It is 3.", " 5 percent.") == ["It is 3. 5 percent."]
    assert spoken("A chip at 3.50 GHz. ", "Then v1.0.0 came out today.") == [
        "A chip at 3.50 GHz.",
        "Then v1.0.0 came out today.",
    ]
    assert spoken("We meet at 6 p.m. today or so.") == ["We meet at 6 p.m. today or so."]
    assert spoken("At 6 p.", "m. ", "We all leave.") == ["At 6 p.m.", "We all leave."]
    assert spoken("It costs 22", ",", "1 today.") == ["It costs 22,1 today."]


def test_t1_an_abbreviation_belongs_to_its_name() -> None:
    assert spoken("I saw Dr.", " Smith. ", "He was well again.") == ["I saw Dr. Smith.", "He was well again."]
    assert spoken("All but Ms.", " Lee agreed. ", "He didn't.") == ["All but Ms. Lee agreed.", "He didn't."]
    assert spoken("Voici M. Dupont. Il est parti.", language="fr") == ["Voici M. Dupont.", "Il est parti."]
    assert spoken("J. R. R. Tolkien wrote. It was good.") == ["J. R. R. Tolkien wrote.", "It was good."]
    assert spoken("Am 5. Mai kam er. Es war schön.", language="de") == ["Am 5. Mai kam er.", "Es war schön."]


def test_t2_an_address_is_whole_and_its_last_full_stop_ends_the_sentence() -> None:
    assert spoken("Write to me@site.co.uk. Then wait for us.") == [
        "Write to me@site.co.uk.",
        "Then wait for us.",
    ]
    assert spoken("See www.example.com/a?b=1. Then wait for us.") == [
        "See www.example.com/a?b=1.",
        "Then wait for us.",
    ]


def test_t3_closing_quotes_and_brackets_stay_with_their_sentence() -> None:
    assert spoken("It is (really.)", " Then it rained.") == ["It is (really.)", "Then it rained."]
    assert spoken("“Yes.", "” she said. “No.” He left us.") == ["“Yes.” she said.", "“No.” He left us."]
    assert spoken('"Stop!" he cried. Then silence.') == ['"Stop!" he cried.', "Then silence."]


def test_t4_a_last_sentence_that_ends_in_a_year_is_spoken_after_three_waits() -> None:
    open_path = path()
    assert open_path.feed("It was in 1980.") == []
    assert open_path.silence_deadline_ms() == 900
    assert open_path.silence(899) == []
    assert [segment.speakable for segment in open_path.silence(900)] == ["It was in 1980."]


def test_t6_chinese_and_japanese_sentences_end_without_a_space() -> None:
    assert spoken("今天天气很好。", "我们一起去公园吧！好吗？") == [
        "今天天气很好。",
        "我们一起去公园吧！",
        "好吗？",
    ]
    assert spoken("「はい。」と言った。そして帰りました。", language="ja") == [
        "「はい。」と言った。",
        "そして帰りました。",
    ]


def test_t6_one_chinese_character_leaves_english_rules_in_force() -> None:
    assert spoken("The word 好 means good. Dr. Li said so to us.") == [
        "The word 好 means good.",
        "Dr. Li said so to us.",
    ]


def test_t8_arabic_and_hindi_stops_cut_and_the_arabic_comma_doesnt() -> None:
    assert spoken("هل أنت بخير؟ نعم أنا بخير جدا اليوم۔ شكرا جزيلا لك يا صديقي؛ وداعا.", language="ar") == [
        "هل أنت بخير؟",
        "نعم أنا بخير جدا اليوم۔",
        "شكرا جزيلا لك يا صديقي؛",
        "وداعا.",
    ]
    assert spoken("أحمد، سارة، علي. كلهم هنا.", language="ar") == ["أحمد، سارة، علي.", "كلهم هنا."]
    assert spoken("मैं घर जा रहा हूँ। तुम कहाँ हो।", language="hi") == ["मैं घर जा रहा हूँ।", "तुम कहाँ हो।"]


def test_t9_sums_of_money_are_whole() -> None:
    assert spoken("It made $5.3 billion. Or €1,234.56 each.") == [
        "It made $5.3 billion.",
        "Or €1,234.56 each.",
    ]


def test_t11_emoji_arent_spoken_and_the_rest_is() -> None:
    assert spoken("Great 👍🏽 job — call 555-1234 NOW 👨‍👩‍👧!") == ["Great job — call 555-1234 NOW !"]
    assert spoken("Key 1️⃣ is ❤️.") == ["Key 1 is ."]


@pytest.mark.parametrize("text", ["Huh?", "1次", "a", "Ж"])
def test_t13_very_short_texts_are_complete(text: str) -> None:
    assert spoken(text) == [text]


@pytest.mark.parametrize(
    "text", ["", " ", "\n\n", "...", "!!!", '""', "👍", "---", "**", "# ", "```\nx = 1\n```", "-", "（）"]
)
def test_t14_text_with_nothing_to_say_has_no_segment(text: str) -> None:
    open_path = path()
    assert [*open_path.feed(text), *open_path.feed(""), *open_path.end()] == []
    assert open_path.chars == len(text)
    assert not open_path.pending
    assert open_path.silence_deadline_ms() is None


def test_t15_quotes_as_increments_of_their_own_are_kept() -> None:
    assert spoken("He said ", '"', "hello", '"', " to us.") == ['He said "hello" to us.']


def test_t16_markdown_split_over_increments_is_read_as_its_words() -> None:
    assert spoken("An *ita", "lic* and **bo", "ld*", "* word.") == ["An italic and bold word."]
    assert spoken("Use snake_", "case here.") == ["Use snake_case here."]
    assert spoken("#", " Title\nText follows.") == ["Title", "Text follows."]
    assert spoken("See [the ", "docs](https://", "x.org/a_b) now.") == ["See the docs now."]
    assert spoken("Before it.\n``", "`py\nprint(1)\n``", "`\nAfter it.") == ["Before it.", "After it."]
    assert spoken("| a | b |\n|--", "-|---|\n| one | two |\n") == ["a, b", "one, two"]


def test_t16_a_marker_without_its_other_half_is_neither_spoken_nor_eats_a_word() -> None:
    assert spoken("An *open one.\n\nThe `next one.") == ["An open one.", "The next one."]
    assert spoken("The [sic] and array[0] stay. 2*3 too.") == ["The [sic] and array[0] stay.", "2*3 too."]
    assert spoken("An [unclosed bracket here.\n\nNext paragraph.") == [
        "An [unclosed bracket here.",
        "Next paragraph.",
    ]


def test_t17_numbers_belong_to_their_items() -> None:
    assert spoken("1. First\n2.", " Second\n3. Third. Really.") == [
        "1. First",
        "2. Second",
        "3. Third. Really.",
    ]


def test_t19_endless_text_is_capped_at_a_word() -> None:
    made = segments("word " * 1500)
    assert all(len(segment.speakable) <= 240 for segment in made)
    assert " ".join(segment.speakable for segment in made) == ("word " * 1500).strip()


@pytest.mark.parametrize("text", ["x" * 100_000, "1234567890" * 1000, "e\u0301" * 5000, "你" * 5000])
def test_t19_one_endless_word_is_capped_at_a_grapheme(text: str) -> None:
    made = segments(text)
    assert "".join(segment.speakable for segment in made) == text
    assert all(len(segment.speakable) <= 240 for segment in made)
    assert not any(segment.speakable.startswith("\u0301") for segment in made)


def test_t19_two_hundred_thousand_increments_of_one_character_pass() -> None:
    open_path = path()
    made = [segment for char in "some more words, and 1 more " * 7200 for segment in open_path.feed(char)]
    made += open_path.end()
    assert sum(segment.speakable.count("words") for segment in made) == 7200


def test_t20_long_lists_and_bare_lines_lose_no_word() -> None:
    names = [f"name{number}" for number in range(200)]
    commas = " ".join(spoken(", ".join(names)))
    lines = spoken("\n".join(names))
    assert [word.strip(",") for word in commas.split()] == names
    assert lines == names


def test_t23_digits_and_dates_of_other_languages_arent_cut() -> None:
    assert spoken("Das kostet 1.234,56 Euro. Am 3. Oktober ist frei.", language="de") == [
        "Das kostet 1.234,56 Euro.",
        "Am 3. Oktober ist frei.",
    ]
    assert spoken("٣٫٥ بالمئة. شكرا لكم.", language="ar") == ["٣٫٥ بالمئة.", "شكرا لكم."]


@pytest.mark.parametrize("text", ["Ok 👨‍👩‍👧 go", "Ok 🇩🇪 go", "cafe\u0301 au lait", "한국 go"])
def test_s1_a_grapheme_over_two_increments_isnt_torn(text: str) -> None:
    whole = segments(text)
    assert all(segments(text[:cut], text[cut:]) == whole for cut in range(1, len(text)))
    assert whole[-1].end_char == len(text)


def test_s2_increments_cut_in_mid_word_give_what_the_whole_text_gives() -> None:
    text = "Hello there, my friend. How are you doing today? I paid 3.50 for it, at 6 p.m. or so."
    assert segments(*text) == segments(text) == segments("Hello th", text[8:40], text[40:])


def test_s3_a_last_token_without_an_end_is_spoken_after_the_wait() -> None:
    open_path = path()
    assert open_path.feed("That is all there is.") == []
    assert open_path.silence_deadline_ms() == 300
    assert open_path.silence(200) == []
    assert [(segment.speakable, segment.cut) for segment in open_path.silence(300)] == [
        ("That is all there is.", "wait")
    ]
    assert open_path.silence_deadline_ms() is None
    assert open_path.end() == []


def test_s4_nothing_is_repeated_after_seconds_of_silence() -> None:
    open_path = path()
    made = open_path.feed("One two thr")
    made += open_path.silence(1500)
    made += open_path.silence(2900)
    made += open_path.silence(3000)
    made += open_path.silence(60_000)
    made += open_path.feed("ee four.") + open_path.end()
    assert [segment.speakable for segment in made] == ["One two", "thr", "ee four."]


def test_the_example_of_the_wire_page() -> None:
    open_path = path()
    made = open_path.feed("Hel") + open_path.feed("lo. It is 3.")
    assert [(segment.start_char, segment.end_char) for segment in made] == [(0, 6)]
    made = open_path.feed("5 degrees.") + open_path.end()
    assert [(segment.start_char, segment.end_char) for segment in made] == [(7, 25)]


def test_letters_that_an_engine_cant_speak_are_counted() -> None:
    latin = frozenset({"Latin"})
    assert unspoken_chars("Hello 你好, 123!", latin) == 2
    assert unspoken_chars("Hello 你好 мир", frozenset({"Latin", "Han"})) == 3
    assert unspoken_chars("naïve e\u0301 5€ ... ー", latin) == 0
    assert unspoken_chars("你好", None) == 0


def test_caps_of_an_engine_hold() -> None:
    rules = SegmentRules(max_chars=80, max_sentences=2)
    made = segments("Yes. No. Yes. No. Yes. " + "A clause of some words, " * 20, rules=rules)
    assert [segment.speakable for segment in made][:3] == ["Yes.", "No. Yes.", "No. Yes."]
    assert all(len(segment.speakable) <= 80 for segment in made)
    assert all(segment.speakable.endswith(",") for segment in made[3:])
