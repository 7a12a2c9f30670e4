from hypothesis import given
from hypothesis import strategies as st

from pcm_cache.shelf import Shelf


def test_the_least_recently_used_goes_first() -> None:
    shelf: Shelf[str] = Shelf(30)
    for key in "abc":
        assert shelf.put(key, key, 10) == []
    assert shelf.get("a") == "a"
    assert shelf.put("d", "d", 10) == ["b"]
    assert [key in shelf for key in "abcd"] == [True, False, True, True]


def test_the_first_stored_stays() -> None:
    shelf: Shelf[str] = Shelf(30)
    shelf.put("a", "first", 10)
    shelf.put("a", "second", 20)
    assert (shelf.get("a"), shelf.bytes) == ("first", 10)


def test_what_is_larger_than_the_shelf_is_not_put_there_and_pushes_nothing_off() -> None:
    shelf: Shelf[str] = Shelf(30)
    shelf.put("a", "a", 10)
    assert shelf.put("b", "b", 31) == ["b"]
    assert ("a" in shelf, "b" in shelf, shelf.bytes) == (True, False, 10)


steps = st.lists(
    st.tuples(st.sampled_from(["put", "get", "remove"]), st.sampled_from("abcdefgh"), st.integers(0, 12))
)


@given(steps)
def test_the_total_is_the_sum_of_what_is_there_and_never_over_the_bound(
    taken: list[tuple[str, str, int]],
) -> None:
    shelf: Shelf[int] = Shelf(20)
    for act, key, item_bytes in taken:
        match act:
            case "put":
                shelf.put(key, item_bytes, item_bytes)
            case "get":
                shelf.get(key)
            case _:
                shelf.remove(key)
        there = [shelf.get(key) for key in "abcdefgh" if key in shelf]
        assert shelf.bytes == sum(item for item in there if item is not None) <= 20
        assert len(shelf) == len(there)


@given(steps)
def test_it_keeps_what_a_plain_list_in_order_of_use_would_keep(taken: list[tuple[str, str, int]]) -> None:
    shelf: Shelf[int] = Shelf(20)
    used: list[tuple[str, int]] = []
    for act, key, item_bytes in taken:
        at = next((n for n, (name, _) in enumerate(used) if name == key), None)
        if act == "put":
            shelf.put(key, item_bytes, item_bytes)
            if at is not None:
                used.append(used.pop(at))
            else:
                used.append((key, item_bytes))
                while sum(size for _, size in used) > 20:
                    used.pop(0)
        elif act == "get":
            shelf.get(key)
            if at is not None:
                used.append(used.pop(at))
        else:
            assert shelf.remove(key) == (at is not None)
            if at is not None:
                used.pop(at)
        assert {key for key in "abcdefgh" if key in shelf} == {name for name, _ in used}
