"""When a listener hears a gap; times on paper, 1000 samples a second."""

from saystream.load.playout import Playout


def test_it_begins_with_200_ms_in_hand_and_counts_no_gap_before() -> None:
    playout = Playout(1000)
    playout.frame(20, 0, 1.0)
    began_s = [playout.began_s]
    playout.frame(180, 0, 9.0)
    assert [*began_s, playout.began_s] == [None, 9.0]
    assert (playout.dry_s, playout.gaps) == (9.2, 0)


def test_a_frame_in_time_is_no_gap_and_five_milliseconds_late_neither() -> None:
    playout = Playout(1000)
    playout.frame(200, 0, 0.0)
    playout.frame(200, 0, 0.1)
    playout.frame(200, 0, 0.4049)
    assert playout.gaps == 0


def test_late_by_more_than_that_is_a_gap() -> None:
    playout = Playout(1000)
    playout.frame(200, 0, 0.0)
    playout.frame(200, 0, 0.25)
    assert playout.gaps == 1
    assert round(playout.silent_s, 6) == 0.05


def test_silence_while_no_text_was_cut_is_not_the_servers() -> None:
    playout = Playout(1000)
    playout.frame(200, 0, 0.0)
    playout.frame(200, 0.996, 1.0)
    assert playout.gaps == 0
    playout.frame(200, 1.0, 1.5)
    assert playout.gaps == 1


def test_after_a_gap_it_begins_again_with_200_ms_in_hand() -> None:
    playout = Playout(1000)
    playout.frame(200, 0, 0.0)
    playout.frame(100, 0, 0.3)
    dry_s = [playout.dry_s]
    playout.frame(100, 0, 0.9)
    assert [*dry_s, playout.dry_s] == [None, 1.1]
    assert playout.gaps == 1


def test_a_short_utterance_is_heard_when_it_is_complete() -> None:
    playout = Playout(1000)
    playout.frame(100, 0, 2.0)
    assert playout.complete(2.5) == 2.6
    assert playout.received_s == 0.1
