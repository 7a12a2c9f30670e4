from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from residency.admission import Admission, Claim


def claim(
    key: int, *, live: bool = True, speed: float = 1.0, client: str = "a", returning: bool = False
) -> Claim:
    return Claim(
        key=key, unit="u", live=live, speed=speed, client=client, connection="x", returning=returning
    )


def admission(
    *,
    cost: float = 0.2,
    capacity: float = 0.8,
    max_streams: float = 1e9,
    max_queue: int = 10,
    elsewhere: Callable[[], float] = lambda: 0.0,
) -> Admission:
    return Admission(
        lambda _unit, _count: cost,
        capacity=capacity,
        max_streams=lambda _unit: max_streams,
        max_queue=max_queue,
        queue_wait_s=30.0,
        elsewhere=elsewhere,
    )


def test_slots_are_given_until_the_load_is_reached() -> None:
    slots = admission()
    assert all(slots.request(claim(key), 0.0) for key in range(5))
    assert [slots.holds(key) for key in range(5)] == [True] * 4 + [False]
    assert slots.load == pytest.approx(0.8)
    assert (slots.in_flight, slots.queued) == (4, 1)


def test_what_is_promised_on_other_lanes_of_the_device_is_not_promised_again_but_one_is_let_in() -> None:
    elsewhere = [0.8]
    slots = admission(elsewhere=lambda: elsewhere[0])
    for key in range(4):
        slots.request(claim(key), 0.0)
    assert slots.in_flight == 1
    assert slots.promised == pytest.approx(0.2)
    elsewhere[0] = 0.4
    assert slots.admit(1.0) == [1]
    slots.request(claim(9, live=False), 1.0)
    assert not slots.holds(9), "a rendering takes nothing of what others were promised"


def test_a_faster_speaker_counts_for_more() -> None:
    slots = admission()
    slots.request(claim(1, speed=2.0), 0.0)
    slots.request(claim(2, speed=2.0), 0.0)
    slots.request(claim(3), 0.0)
    assert not slots.holds(3)


def test_one_listener_is_let_in_however_expensive() -> None:
    slots = admission(cost=3.0)
    slots.request(claim(1), 0.0)
    slots.request(claim(2), 0.0)
    assert slots.holds(1)
    assert not slots.holds(2)


def test_the_number_of_slots_may_be_limited_as_well() -> None:
    slots = admission(cost=0.0, max_streams=2)
    for key in range(3):
        slots.request(claim(key), 0.0)
    assert slots.in_flight == 2


def test_beyond_the_queue_there_is_no_place() -> None:
    slots = admission(max_streams=1, max_queue=2)
    assert [slots.request(claim(key), 0.0) for key in range(4)] == [True, True, True, False]


def test_a_slot_that_comes_free_goes_to_the_head_but_one_that_has_spoken_comes_before_it() -> None:
    slots = admission(max_streams=1)
    for key in (1, 2):
        slots.request(claim(key), 0.0)
    slots.request(claim(3, returning=True), 0.0)
    slots.release(1, 1.0)
    assert slots.admit(1.0) == [3]
    slots.release(3, 2.0)
    assert slots.admit(2.0) == [2]


def test_a_newcomer_never_overtakes_the_queue() -> None:
    slots = admission(max_streams=1)
    slots.request(claim(1), 0.0)
    slots.request(claim(2), 0.0)
    slots.release(1, 1.0)
    slots.request(claim(3), 1.0)
    assert not slots.holds(3)
    assert slots.admit(1.0) == [2]


def test_renderings_take_only_what_live_listeners_leave_and_never_keep_one_out() -> None:
    slots = admission(cost=0.2)
    for key in range(4):
        slots.request(claim(key, live=False), 0.0)
    assert slots.in_flight == 4
    slots.request(claim(10), 0.0)
    assert slots.holds(10)
    slots.request(claim(11, live=False), 0.0)
    assert not slots.holds(11)


def test_a_replacement_takes_over_the_slot_or_the_place_in_the_queue() -> None:
    slots = admission(max_streams=1)
    for key in (1, 2, 3):
        slots.request(claim(key), 0.0)
    assert slots.take_over(1, claim(11), 0.0)
    assert slots.take_over(2, claim(12), 0.0)
    assert not slots.take_over(77, claim(13), 0.0)
    assert slots.holds(11)
    assert list(slots.order()) == [12, 3]
    assert (slots.in_flight, slots.queued) == (1, 2)


def test_a_live_one_takes_over_a_renderings_slot_only_where_it_fits() -> None:
    slots = admission(max_streams=2)
    slots.request(claim(1, live=False), 0.0)
    slots.request(claim(2, live=False), 0.0)
    assert slots.take_over(1, claim(11), 0.0)
    slots.request(claim(3), 0.0)
    assert not slots.take_over(2, claim(12), 0.0)
    assert sorted(slots.holders()) == [2, 3, 11]
    assert slots.take_over(11, claim(13, live=False), 0.0)
    assert slots.take_over(3, claim(14), 0.0)


def test_waiting_times_are_work_ahead_over_the_rate_at_which_slots_come_free() -> None:
    slots = admission(cost=0.0, max_streams=2)
    for key in range(6):
        slots.request(claim(key), 0.0)
    # Two slots of four seconds each: one comes free every two seconds.
    assert list(slots.waits_s().values()) == pytest.approx([2.0, 4.0, 6.0, 8.0])
    assert slots.retry_after_s() == pytest.approx(10.0)


def test_longer_holds_make_longer_waits() -> None:
    slots = admission(cost=0.0, max_streams=1)
    now_s = 0.0
    for key in range(40):
        slots.request(claim(key), now_s)
        now_s += 20.0
        slots.release(key, now_s)
    slots.request(claim(98), now_s)
    slots.request(claim(99), now_s)
    assert slots.waits_s()[99] == pytest.approx(20.0, rel=0.05)


def test_with_room_there_is_nothing_to_retry_after() -> None:
    slots = admission()
    assert slots.retry_after_s() == 0.0
    slots.request(claim(1), 0.0)
    assert slots.retry_after_s() == 0.0


def test_those_who_waited_too_long_are_named() -> None:
    slots = admission(max_streams=1)
    slots.request(claim(1), 0.0)
    slots.request(claim(2), 0.0)
    slots.request(claim(3), 5.0)
    assert slots.expired(29.0) == []
    assert slots.expired(30.0) == [2]


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["request", "release", "admit", "take_over"]),
        st.integers(0, 15),
        st.booleans(),
        st.sampled_from("abc"),
    ),
    max_size=80,
)


@given(OPERATIONS)
def test_whatever_happens_no_slot_leaks_and_the_load_is_the_sum_of_its_holders(
    operations: list[tuple[str, int, bool, str]],
) -> None:
    slots = admission(cost=0.3, max_queue=4)
    fresh = 100
    known: set[int] = set()
    for kind, key, flag, client in operations:
        one = claim(key, live=flag, client=client, returning=client == "c")
        if kind == "request" and not slots.holds(key) and not slots.waits(key):
            slots.request(one, 0.0)
            known.add(key)
        elif kind == "release":
            slots.release(key, 1.0)
        elif kind == "admit":
            slots.admit(1.0)
        elif kind == "take_over":
            fresh += 1
            known.add(fresh)
            slots.take_over(key, claim(fresh, live=flag, client=client), 1.0)
        held = [key for key in known if slots.holds(key)]
        assert slots.in_flight == len(held)
        assert slots.load == pytest.approx(0.3 * len(held))
        assert slots.queued == len(list(slots.order())) == sum(slots.waits(key) for key in known)
    for key in known:
        slots.release(key, 2.0)
    assert (slots.in_flight, slots.queued) == (0, 0)
    assert slots.load == pytest.approx(0.0)
