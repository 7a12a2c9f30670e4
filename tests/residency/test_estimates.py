import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from residency.estimates import Estimates, Line


@given(st.floats(0.001, 1), st.floats(0, 0.1))
def test_a_line_is_found_again_from_points_on_it(a: float, b: float) -> None:
    line = Line()
    for x in (10, 30, 90, 50, 70, 20, 110):
        line.observe(x, a + b * x)
    assert line.at(200) == pytest.approx(a + b * 200, rel=1e-3)


def test_one_outlier_pulls_an_estimate_by_less_than_a_third() -> None:
    line = Line()
    for x in [10, 30, 90, 50] * 10:
        line.observe(x, 0.01 + 0.001 * x)
    before = line.at(50)
    line.observe(50, 100.0)
    assert line.at(50) < before * 4 / 3


def test_step_times_by_text_length_are_learned_and_the_high_one_holds_for_nine_of_ten() -> None:
    rng = random.Random(1)
    estimates = Estimates()

    def step_s(chars: int) -> float:
        return (0.004 + 0.0005 * chars) * rng.lognormvariate(0, 0.3)

    for _ in range(300):
        chars = rng.randint(10, 150)
        estimates.observe_step(chars=chars, first=True, step_s=step_s(chars), speech_s=chars / 15, batch=1)
    under = sum(
        step_s(chars) <= estimates.step_high_s(chars) for chars in [rng.randint(10, 150) for _ in range(500)]
    )
    assert estimates.step_s(100) == pytest.approx(0.054 * 1.046, rel=0.25)
    assert 0.8 <= under / 500 <= 0.99


def test_later_steps_of_a_stream_have_an_estimate_of_their_own() -> None:
    estimates = Estimates()
    for _ in range(20):
        estimates.observe_step(chars=50, first=True, step_s=0.3, speech_s=0.08, batch=1)
        estimates.observe_step(chars=50, first=False, step_s=0.02, speech_s=0.08, batch=1)
    assert estimates.step_s(50) == pytest.approx(0.3)
    assert estimates.step_s(50, first=False) == pytest.approx(0.02)


def test_cost_is_device_time_over_speech_whatever_the_lengths_of_the_segments() -> None:
    estimates = Estimates()
    for number in range(200):
        speech_s = 0.5 if number % 2 else 4.5
        estimates.observe_step(
            chars=30, first=True, step_s=0.02 + 0.01 * speech_s, speech_s=speech_s, batch=1
        )
    assert estimates.cost() == pytest.approx((2 * 0.02 + 0.05) / 5.0, rel=0.1)
    assert estimates.cost() <= estimates.cost_high() <= estimates.cost() * 1.3
    assert estimates.streams(0.8) == pytest.approx(0.8 / 0.018, rel=0.25)


def test_a_batch_costs_each_of_its_streams_less_and_so_more_of_them_fit() -> None:
    estimates = Estimates(max_batch=8)
    for _ in range(60):
        for batch in (1, 8):
            estimates.observe_step(
                chars=50, first=False, step_s=0.04 + 0.002 * batch, speech_s=0.1, batch=batch
            )
    assert estimates.cost(1) == pytest.approx(0.42, rel=0.15)
    assert estimates.cost(8) == pytest.approx(0.07, rel=0.15)
    assert estimates.cost(20) == estimates.cost(8)
    assert estimates.streams(0.8) == pytest.approx(0.8 / 0.07, rel=0.3)


def test_costs_follow_a_machine_that_becomes_slower() -> None:
    estimates = Estimates()
    for cost in (0.1, 0.3):
        for _ in range(100):
            estimates.observe_step(chars=60, first=True, step_s=cost * 4, speech_s=4.0, batch=1)
    assert estimates.cost() == pytest.approx(0.3, rel=0.1)


def test_the_length_of_speech_follows_from_what_was_made() -> None:
    estimates = Estimates()
    estimates.observe_job(chars=100, speech_s=8.0)
    estimates.observe_job(chars=50, speech_s=4.0)
    assert estimates.speech_s(25) == pytest.approx(2.0)


def test_before_anything_was_measured_there_are_cautious_guesses() -> None:
    estimates = Estimates()
    assert not estimates.known
    assert estimates.step_s(40) > 0
    assert 0 < estimates.cost() < 1
    assert estimates.speech_s(15) == pytest.approx(1.0)
