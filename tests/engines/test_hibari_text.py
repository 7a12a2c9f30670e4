import pytest
from hibari import Hibari
from hypothesis import given
from hypothesis import strategies as st

from engines.hibari_text import Reader, Utterable

ORDINARY = [
    "Hello there, my friend.",
    "On the 3rd of March 2024, 1,250 people paid $9.99 each at 7:30 pm, which Dr. Smith (really) said.",
    "He ran 5 km at 12 km/h; then he stopped — at once.",
    "Is it? No! It's Henry VIII, I think... or not.",
    "Chapter IV begins on 10/12/2024.\nIt's 20°C outside.",
    "C++ and C# cost 50% of #3.",
    "word " * 120,
]


@pytest.fixture(scope="module")
def library() -> Hibari:
    return Hibari(threads=1)


@pytest.fixture(scope="module")
def reader(library: Hibari) -> Reader:
    return Reader(library.g2p, library.vocab)


def spoken_words(text: str, utterables: list[Utterable]) -> list[str]:
    return [text[word.start_char : word.end_char] for each in utterables for word in each.words]


@pytest.mark.parametrize("text", ORDINARY[:-1])
def test_it_reads_as_the_library_does(reader: Reader, library: Hibari, text: str) -> None:
    expected = [library.ids(phonemes) for phonemes in library.phonemize(text)]
    assert [list(each.ids) for each in reader.read(text)] == expected


def test_a_long_text_is_read_in_pieces_that_the_network_takes(reader: Reader, library: Hibari) -> None:
    pieces = list(reader.read(ORDINARY[-1]))
    assert len(pieces) > 1
    assert max(len(piece.ids) for piece in pieces) <= 402
    assert len(spoken_words(ORDINARY[-1], pieces)) == 120


def test_a_long_text_is_cut_after_a_clause_if_it_can_be(reader: Reader) -> None:
    text = "word " * 60 + "end, " + "word " * 60
    first = next(iter(reader.read(text)))
    assert text[first.words[-1].start_char : first.words[-1].end_char] == "end"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, “world”!", ["Hello", "world"]),
        ("At 7:30 pm, go.", ["At", "7:30 pm", "go"]),
        ("Dr. Smith lives on St. James St.", ["Dr", "Smith", "lives", "on", "St", "James", "St"]),
        ("It costs $3.50 or 5 km.", ["It", "costs", "$3.50", "or", "5", "km"]),
        ("Two. Sentences. Here.", ["Two", "Sentences", "Here"]),
        ("the same the same. The same.", ["the", "same", "the", "same", "The", "same"]),
        ("Hi 你好 😀 there", ["Hi", "there"]),
        ("  spaces \n  and\nlines  ", ["spaces", "and", "lines"]),
    ],
)
def test_each_word_knows_its_characters(reader: Reader, text: str, words: list[str]) -> None:
    assert spoken_words(text, list(reader.read(text))) == words


def test_a_huge_number_is_read_digit_by_digit(reader: Reader, library: Hibari) -> None:
    pieces = list(reader.read("1" * 300))
    (one,) = reader.read("1")
    assert sum(len(piece.ids) for piece in pieces) > 300 * (len(one.ids) - 2)
    assert [(word.start_char, word.end_char) for piece in pieces for word in piece.words] == [(0, 300)]
    (with_commas,) = reader.read("1" + ",000" * 12)
    (expected,) = reader.read(" ".join("1" + "000" * 12))
    assert with_commas.ids == expected.ids


def test_a_word_of_hundreds_of_letters_is_read_to_its_end(reader: Reader) -> None:
    (tail,) = reader.read("dampf")
    read = list(reader.read("dampf" * 60))
    assert sum(len(piece.ids) for piece in read) > 30 * (len(tail.ids) - 2)
    assert [(word.start_char, word.end_char) for piece in read for word in piece.words] == [(0, 300)]


def test_instructions_to_the_front_end_are_read_as_text(reader: Reader, library: Hibari) -> None:
    (read,) = reader.read("[word](/kˈæt/)")
    assert list(read.ids) != library.ids("kˈæt")
    assert len(read.ids) > len(library.ids("wˈɜɹd"))


def test_what_the_front_end_cannot_read_does_not_silence_the_rest(reader: Reader, library: Hibari) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        library.phonemize("Note\x1b¹ this.")
    text = "Note\x1b¹ this."
    assert spoken_words(text, list(reader.read(text)))[-1] == "this"


@given(
    st.text(max_size=80) | st.text(st.sampled_from("aB1 .,:;!?-–—'\"()[]/$%£&@#*°½5\n7¹⁴①²٣"), max_size=60)
)
def test_any_text_is_read_and_its_words_are_in_order(text: str) -> None:
    reader = _shared_reader()
    end_char = 0
    for utterable in reader.read(text):
        end_id = 1
        assert utterable.ids[0] == utterable.ids[-1] == 0
        for word in utterable.words:
            assert end_char <= word.start_char < word.end_char <= len(text)
            assert end_id <= word.first_id < word.end_id < len(utterable.ids)
            end_char, end_id = word.end_char, word.end_id


_READERS: list[Reader] = []


def _shared_reader() -> Reader:
    """Loading one takes a third of a second; hypothesis and fixtures don't mix."""
    if not _READERS:
        library = Hibari(threads=1)
        _READERS.append(Reader(library.g2p, library.vocab))
    return _READERS[0]
