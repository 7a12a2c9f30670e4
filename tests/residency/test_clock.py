"""Numbers on paper from the wire page, "The clock"."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from residency.clock import AHEAD_S, MERGE_S, PlayoutClock


def test_playback_is_assumed_to_begin_a_cushion_after_the_first_frame() -> None:
    clock = PlayoutClock(0.2)
    assert clock.playhead_s(10.0) == 0.0
    assert clock.dry_s == inf
    clock.sent(1.0, 10.0)
    clock.sent(1.0, 10.1)
    assert clock.playhead_s(10.2) == pytest.approx(0.0)
    assert clock.playhead_s(10.7) == pytest.approx(0.5)
    assert clock.in_hand_s(10.7) == pytest.approx(1.5)
    assert clock.dry_s == pytest.approx(12.2)


def test_the_playhead_never_passes_the_end_of_what_was_sent() -> None:
    clock = PlayoutClock(0.2)
    clock.sent(1.0, 10.0)
    assert clock.playhead_s(99.0) == 1.0
    assert clock.in_hand_s(99.0) == 0.0


def test_after_running_dry_it_begins_again_a_cushion_after_the_next_frame() -> None:
    clock = PlayoutClock(0.2)
    clock.sent(1.0, 10.0)
    gap = clock.sent(1.0, 13.0)
    assert gap is not None
    assert (gap.position_s, gap.until_s) == (1.0, 13.0)
    assert gap.length_s == pytest.approx(1.8)
    assert clock.gaps == 1
    assert clock.playhead_s(13.1) == 1.0
    assert clock.playhead_s(13.2) == pytest.approx(1.0)
    assert clock.playhead_s(13.7) == pytest.approx(1.5)


def test_a_frame_that_arrives_while_there_is_audio_in_hand_ends_no_gap() -> None:
    clock = PlayoutClock(0.2)
    assert clock.sent(1.0, 10.0) is None
    assert clock.sent(1.0, 11.1) is None
    assert clock.gaps == 0


def test_a_report_is_extrapolated_from_its_arrival() -> None:
    clock = PlayoutClock(0.2)
    clock.sent(5.0, 10.0)
    clock.report(0.5, False, 11.0)
    assert clock.playhead_s(12.0) == pytest.approx(1.5)
    assert clock.reported


def test_a_pause_freezes_the_playhead_until_a_report_that_it_plays() -> None:
    clock = PlayoutClock(0.2)
    clock.sent(5.0, 10.0)
    clock.report(0.5, True, 11.0)
    assert clock.paused
    assert clock.playhead_s(60.0) == 0.5
    assert clock.dry_s == inf
    assert clock.sent(1.0, 60.0) is None
    clock.report(0.5, False, 61.0)
    assert clock.playhead_s(62.0) == pytest.approx(1.5)


def test_a_pause_before_the_first_frame_keeps_playback_from_being_assumed() -> None:
    clock = PlayoutClock(0.2)
    clock.report(0.0, True, 9.0)
    clock.sent(2.0, 10.0)
    assert clock.playhead_s(20.0) == 0.0
    clock.report(0.0, False, 20.0)
    assert clock.playhead_s(21.0) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("played_s", "at_s", "clamped_s"), [(9.0, 10.5, 0.75), (9.0, 18.0, 3.0), (1e9, 18.0, 3.0)]
)
def test_a_report_is_clamped_to_what_was_sent_and_to_real_time_and_a_quarter(
    played_s: float, at_s: float, clamped_s: float
) -> None:
    clock = PlayoutClock(0.2)
    clock.sent(3.0, 10.0)
    clock.report(played_s, True, at_s)
    assert clock.playhead_s(at_s) == pytest.approx(clamped_s)


def test_a_report_may_move_the_playhead_back() -> None:
    clock = PlayoutClock(0.2)
    clock.sent(5.0, 10.0)
    assert clock.playhead_s(13.0) == pytest.approx(2.8)
    clock.report(1.0, False, 13.0)
    assert clock.playhead_s(13.0) == pytest.approx(1.0)


def test_a_smaller_position_than_before_is_ignored_but_its_state_isnt() -> None:
    clock = PlayoutClock(0.2)
    clock.sent(5.0, 10.0)
    clock.report(1.0, False, 12.0)
    clock.report(0.3, False, 12.5)
    assert clock.playhead_s(12.5) == pytest.approx(1.5)
    clock.report(0.4, True, 13.0)
    assert clock.playhead_s(99.0) == pytest.approx(2.0)


def test_of_more_than_twenty_reports_a_second_the_last_ones_count() -> None:
    clock = PlayoutClock(0.2)
    clock.sent(5.0, 10.0)
    clock.report(0.10, False, 11.0)
    clock.report(0.20, False, 11.01)
    clock.report(0.30, False, 11.02)
    assert clock.playhead_s(11.03) == pytest.approx(0.13)
    assert clock.playhead_s(11.08) == pytest.approx(0.36)


def test_a_change_of_state_is_never_held_back() -> None:
    clock = PlayoutClock(0.2)
    clock.sent(5.0, 10.0)
    clock.report(0.10, False, 11.0)
    clock.report(0.11, True, 11.01)
    assert clock.paused
    assert clock.playhead_s(20.0) == pytest.approx(0.11)


def test_an_early_start_that_is_reported_replaces_the_assumed_cushion() -> None:
    clock = PlayoutClock(2.0)
    clock.sent(5.0, 10.0)
    clock.report(0.0, False, 10.1)
    assert clock.playhead_s(11.1) == pytest.approx(1.0)


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.floats(0, 3), st.booleans()),
        st.tuples(st.just("sent"), st.floats(0, 2), st.booleans()),
        st.tuples(st.just("report"), st.floats(0, 10), st.booleans()),
    ),
    max_size=40,
)


@given(cushion_s=st.floats(0, 3), events=EVENTS)
def test_whatever_happens_the_playhead_stays_within_the_audio_and_the_wall_clock(
    cushion_s: float, events: list[tuple[str, float, bool]]
) -> None:
    clock = PlayoutClock(cushion_s)
    now_s, first_s, sent_s, merged = 50.0, None, 0.0, False
    for kind, value, flag in events:
        before_s = clock.playhead_s(now_s)
        match kind:
            case "wait":
                now_s += value
                # Not at the very moment: a sum of floats may fall on either side of it.
                if value > MERGE_S + 1e-6:
                    before_s, merged = clock.playhead_s(now_s), False
                    now_s += value
                if not merged:
                    assert clock.playhead_s(now_s) >= before_s
                    assert not clock.paused or clock.playhead_s(now_s) == before_s
            case "sent":
                clock.sent(value, now_s)
                sent_s += value
                if value and first_s is None:
                    first_s = now_s
                assert clock.playhead_s(now_s) == pytest.approx(before_s, abs=2e-6)
            case "report":
                clock.report(value, flag, now_s)
                assert clock.paused == flag
                merged = True
        playhead_s = clock.playhead_s(now_s)
        assert 0 <= playhead_s <= sent_s + 1e-9
        assert playhead_s <= (0 if first_s is None else now_s - first_s + AHEAD_S) + 1e-9
        assert clock.in_hand_s(now_s) == pytest.approx(sent_s - playhead_s, abs=1e-6)


@given(st.lists(st.tuples(st.floats(0.001, 2), st.floats(0, 3)), min_size=1, max_size=20), st.floats(0, 2))
def test_gaps_and_playhead_agree_with_a_player_simulated_by_the_millisecond(
    frames: list[tuple[float, float]], cushion_s: float
) -> None:
    """In whole milliseconds; a frame in the very millisecond of running dry may be a gap to one and not the other."""
    cushion_ms = round(cushion_s * 1000)
    clock = PlayoutClock(cushion_ms / 1000)
    now_ms, sent_ms, played_ms, starts_ms, base_ms, gaps = 0, 0, 0, 0, 0, 0
    for audio_s, wait_s in frames:
        audio_ms, wait_ms = max(1, round(audio_s * 1000)), round(wait_s * 1000)
        if sent_ms == 0:
            starts_ms = cushion_ms
        elif now_ms > starts_ms + sent_ms - base_ms:
            gaps += 1
            starts_ms, base_ms = now_ms + cushion_ms, sent_ms
        clock.sent(audio_ms / 1000, now_ms / 1000)
        sent_ms += audio_ms
        now_ms += wait_ms
        played_ms = min(sent_ms, base_ms + max(0, now_ms - starts_ms))
        assert clock.playhead_s(now_ms / 1000) == pytest.approx(played_ms / 1000, abs=1e-6)
    assert clock.gaps == pytest.approx(gaps, abs=1)
