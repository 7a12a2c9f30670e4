import math

import pytest

from ws_server.heard import SpokenSegment
from ws_server.tally import GapCause, Tally, gap_cause

DRY_S = 10.0


def segment(text_s: float, cut_s: float, step_s: float) -> SpokenSegment:
    return SpokenSegment(0, 5, text_s=text_s, cut_s=cut_s, step_s=step_s)


@pytest.mark.parametrize(
    ("text_s", "cut_s", "step_s", "cause"),
    [
        (11.0, 11.0, 11.1, None),  # a pause of the writer: all that had come was spoken
        (9.0, 10.5, 10.6, "text"),  # a sentence had begun and its end came too late
        (8.0, 9.0, 10.2, "overload"),  # cut in time, but the device was busy with others
        (8.0, 9.0, 9.9, "misestimate"),  # begun in time, and it took longer than was thought
    ],
)
def test_every_gap_has_a_cause(text_s: float, cut_s: float, step_s: float, cause: GapCause | None) -> None:
    assert gap_cause(segment(text_s, cut_s, step_s), DRY_S) == cause


def test_a_gap_before_an_unknown_segment_is_nobodys() -> None:
    assert gap_cause(None, DRY_S) is None


def test_the_time_to_first_audio_is_the_sum_of_its_parts() -> None:
    tally = Tally(opened_s=1.0, certain_s=2.0, cut_s=2.001, step_started_s=2.011, step_ended_s=2.041)
    tally.first_sent_s = 2.043
    stats = tally.stats(audio_s=1.5, now_s=9.0)
    parts = (stats.cut_ms, stats.wait_ms, stats.engine_ms, stats.send_ms)
    assert parts == (1.0, 10.0, 30.0, 2.0)
    assert stats.ttfa_ms == 43.0
    assert stats.audio_ms == 1500.0


def test_what_never_happened_has_no_time() -> None:
    stats = Tally(opened_s=1.0).stats(audio_s=0.0, now_s=2.0)
    assert stats.ttfa_ms is None
    assert stats.wait_ms is None
    assert stats.queue_ms == 0


def test_waiting_for_a_slot_adds_up_over_several_waits() -> None:
    tally = Tally(opened_s=0.0)
    tally.waits(1.0)
    tally.waits(1.5)  # told again: the first moment counts
    tally.runs(2.0)
    tally.runs(2.5)
    tally.waits(5.0)
    assert tally.stats(0.0, now_s=5.25).queue_ms == 1250.0
    assert math.isclose(tally.queue_s, 1.25)
