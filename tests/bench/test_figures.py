"""What the measurements make of their numbers."""

import pytest

from bench import texts
from bench.first_audio import token_to_frame_ms
from bench.row import Row
from bench.soak import growth_bytes_per_min
from bench.talk import Heard
from protocol.messages import Done, Segment, Stats

STATS = Stats(
    queue_ms=0,
    ttfa_ms=20,
    cut_ms=0,
    wait_ms=0,
    engine_ms=20,
    send_ms=0,
    audio_ms=1000,
    compute_ms=10,
    segments=1,
    forced_cuts=0,
    gaps=0,
    cache_hits=0,
    unspoken_chars=0,
)


def heard(first_audio_s: float) -> Heard:
    return Heard(
        sent_s=[0.0, 0.1, 0.2, 0.3],
        first_audio_s=first_audio_s,
        segments=[Segment(id="a", index=0, start_char=0, end_char=5, at_sample=0)],
        done=Done(id="a", reason="cancelled", samples=1, chars=1, stats=STATS),
    )


def test_a_wait_runs_from_the_token_that_made_the_cut_certain() -> None:
    parts = ["Hello", " wor", "ld"]
    assert token_to_frame_ms(parts, heard(0.025)) == 25.0
    assert round(token_to_frame_ms(parts, heard(0.125)) or 0, 6) == 25.0
    assert token_to_frame_ms(parts, Heard()) is None


def test_the_fifteen_words_are_fifteen_and_have_no_comma() -> None:
    assert {len(text.split()) for text in texts.FIFTEEN_WORDS} == {15}
    assert not any("," in text for text in texts.FIFTEEN_WORDS)


def test_the_corpus_has_enough_plain_sentences() -> None:
    assert len(texts.corpus()) >= 199
    assert len(texts.sentences()) >= 200


def test_a_row_says_whether_its_bound_was_reached() -> None:
    assert Row("a", "1 ms", "≤ 2 ms", reached=True).line().endswith("(reach ≤ 2 ms) ok")
    assert "NOT REACHED" in Row("a", "3 ms", "≤ 2 ms", reached=False).line()
    assert Row("a", "3 ms", "", reached=None).line() == "a: 3 ms"


def test_growth_is_a_slope_after_warming_up() -> None:
    assert growth_bytes_per_min([1, 2, 3, 4, 5, 6], [1e6, 2e6, 2.1e6, 2.2e6, 2.3e6, 2.4e6]) == pytest.approx(
        1e5
    )
    assert growth_bytes_per_min([1], [1e6]) == 0
