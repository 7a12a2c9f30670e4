import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engines.silence import SilenceGate, SilenceRules

RATE_HZ = 1000
RULES = SilenceRules()


def loud(count: int) -> np.ndarray:
    return np.full(count, 0.5, np.float32)


def quiet(count: int) -> np.ndarray:
    return np.full(count, 0.001, np.float32)


def gate(cut_after_samples: int | None = None) -> SilenceGate:
    return SilenceGate(RULES, RATE_HZ, cut_after_samples=cut_after_samples)


def through(passing: SilenceGate, samples: np.ndarray, sizes: list[int]) -> np.ndarray:
    out = []
    at = 0
    for size in [*sizes, samples.size]:
        part = samples[at : at + size]
        at += size
        out.append(passing.push(part, last=at >= samples.size))
        if at >= samples.size or passing.cut:
            break
    return np.concatenate(out)


def test_a_tenth_of_a_second_is_kept_before_the_first_sound() -> None:
    passing = gate()
    samples = np.concatenate([quiet(300), loud(50)])
    np.testing.assert_array_equal(passing.push(samples, last=True), samples[200:])
    assert passing.dropped_samples == 200


def test_a_late_start_drops_nothing_when_there_is_nothing_to_drop() -> None:
    passing = gate()
    assert passing.push(loud(50), last=True).size == 50
    assert passing.dropped_samples == 0


def test_the_end_keeps_a_natural_pause() -> None:
    passing = gate()
    assert passing.push(np.concatenate([loud(50), quiet(5000)]), last=True).size == 50 + 350
    assert passing.trimmed_samples == 4650


def test_sound_is_never_held_back() -> None:
    passing = gate()
    assert passing.push(loud(30), last=False).size == 30
    assert passing.push(np.concatenate([loud(30), quiet(350)]), last=False).size == 380


def test_only_silence_beyond_the_pause_waits_for_what_follows() -> None:
    passing = gate()
    assert passing.push(np.concatenate([loud(30), quiet(500)]), last=False).size == 380
    assert passing.push(quiet(400), last=False).size == 0
    assert passing.push(loud(10), last=False).size == 560
    assert passing.push(np.zeros(0, np.float32), last=True).size == 0


def test_a_gap_after_the_text_was_said_ends_the_segment() -> None:
    passing = gate(cut_after_samples=100)
    samples = np.concatenate([loud(200), quiet(2500), loud(300)])
    assert through(passing, samples, []).size == 200 + 350
    assert passing.cut


def test_a_gap_that_still_lasts_is_enough() -> None:
    passing = gate(cut_after_samples=100)
    passing.push(loud(200), last=False)
    passing.push(quiet(1500), last=False)
    assert not passing.cut
    passing.push(quiet(600), last=False)
    assert passing.cut


def test_a_gap_before_much_was_said_is_a_pause() -> None:
    passing = gate(cut_after_samples=1000)
    samples = np.concatenate([loud(200), quiet(2500), loud(300)])
    assert through(passing, samples, []).size == samples.size


def test_gaps_of_an_engine_that_does_not_sample_are_pauses() -> None:
    samples = np.concatenate([loud(200), quiet(9000), loud(300)])
    assert through(gate(), samples, []).size == samples.size


def test_nothing_but_silence_is_not_heard() -> None:
    passing = gate()
    assert through(passing, quiet(900), [100, 300]).size == 0
    assert not passing.heard


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 1200)), max_size=8),
    st.lists(st.integers(1, 700), max_size=12),
    st.sampled_from([None, 0, 300, 2000]),
)
def test_how_the_audio_is_chunked_does_not_matter(
    runs: list[tuple[bool, int]], sizes: list[int], cut_after_samples: int | None
) -> None:
    samples = np.concatenate(
        [np.zeros(0, np.float32), *(loud(n) if is_loud else quiet(n) for is_loud, n in runs)]
    )
    whole, pieces = gate(cut_after_samples), gate(cut_after_samples)
    expected = through(whole, samples, [])
    np.testing.assert_array_equal(through(pieces, samples, sizes), expected)
    assert (pieces.cut, pieces.heard, pieces.dropped_samples) == (
        whole.cut,
        whole.heard,
        whole.dropped_samples,
    )
    assert pieces.passed_samples == expected.size


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 900)), max_size=8))
def test_all_that_is_loud_comes_out(runs: list[tuple[bool, int]]) -> None:
    samples = np.concatenate(
        [np.zeros(0, np.float32), *(loud(n) if is_loud else quiet(n) for is_loud, n in runs)]
    )
    assert (through(gate(), samples, [77] * 50) == 0.5).sum() == (samples == 0.5).sum()
