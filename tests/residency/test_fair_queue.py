from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from residency.fair_queue import FairQueue


def taken(queue: FairQueue) -> list[int]:
    return [queue.pop() for _ in range(len(queue))]


def test_clients_take_turns_however_much_one_asks_for() -> None:
    queue = FairQueue()
    for key in (1, 2, 3):
        queue.push(key, "greedy", "x")
    queue.push(4, "modest", "y")
    assert list(queue) == [1, 4, 2, 3]
    assert taken(queue) == [1, 4, 2, 3]


def test_connections_of_one_client_take_turns_too() -> None:
    queue = FairQueue()
    for key, connection in ((1, "x"), (2, "x"), (3, "y"), (4, "x")):
        queue.push(key, "client", connection)
    assert taken(queue) == [1, 3, 2, 4]


def test_one_that_leaves_makes_no_hole() -> None:
    queue = FairQueue()
    for key in (1, 2, 3):
        queue.push(key, "client", "x")
    queue.remove(2)
    assert 2 not in queue
    assert taken(queue) == [1, 3]
    assert queue.head() is None


def test_a_replacement_takes_over_the_very_place() -> None:
    queue = FairQueue()
    for key in (1, 2, 3):
        queue.push(key, "client", "x")
    queue.replace(2, 9)
    assert taken(queue) == [1, 9, 3]


PUSHES = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), max_size=25)


@given(PUSHES)
def test_it_is_taken_in_the_order_that_it_tells(pushes: list[tuple[str, str]]) -> None:
    queue = FairQueue()
    for key, (client, connection) in enumerate(pushes):
        queue.push(key, client, connection)
    told = list(queue)
    assert taken(queue) == told
    assert sorted(told) == list(range(len(pushes)))


@given(PUSHES)
def test_no_client_is_passed_over_twice_while_it_waits(pushes: list[tuple[str, str]]) -> None:
    queue = FairQueue()
    for key, (client, connection) in enumerate(pushes):
        queue.push(key, client, connection)
    order = [pushes[key][0] for key in taken(queue)]
    for client in set(order):
        turns = [index for index, one in enumerate(order) if one == client]
        for earlier, later in pairwise(turns):
            between = order[earlier + 1 : later]
            assert len(between) == len(set(between))
