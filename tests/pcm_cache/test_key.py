from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcm_cache.key import ClipKey, Plain

KEY = ClipKey(
    engine="tone",
    engine_version="1",
    checkpoint="c",
    sample_rate_hz=24000,
    exact_words=True,
    guards="1",
    text="Hello.",
    language="en",
    voice="a4",
    speed=1.0,
    seed=7,
    options=("map", ("fault", None)),
)
OTHERS: dict[str, Any] = {
    "engine": "hibari",
    "engine_version": "2",
    "checkpoint": "d",
    "sample_rate_hz": 48000,
    "exact_words": False,
    "guards": "2",
    "text": "Hello!",
    "language": "en-US",
    "voice": "a5",
    "speed": 1.1,
    "seed": 8,
    "options": ("map", ("fault", "None")),
}
plain: st.SearchStrategy[Plain] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda parts: st.lists(parts, max_size=3).map(tuple),
    max_leaves=6,
)


@pytest.mark.parametrize("name", [field.name for field in fields(ClipKey)])
def test_each_field_changes_the_digest(name: str) -> None:
    assert replace(KEY, **{name: OTHERS[name]}).digest != KEY.digest


def test_a_digest_is_forty_hexadecimal_digits_and_the_same_in_every_process() -> None:
    # b2sum -l 160 of the JSON list of names and values, as the docstring says
    assert len(KEY.digest) == 40
    assert int(KEY.digest, 16) > 0
    assert replace(KEY).digest == KEY.digest


@given(plain, plain)
def test_two_values_have_one_digest_only_if_they_are_the_same(one: Plain, other: Plain) -> None:
    same = repr(one) == repr(other)  # 1, 1.0 and True are equal in Python, and not to an engine
    assert (replace(KEY, options=one).digest == replace(KEY, options=other).digest) == same


@given(st.text(alphabet=st.characters(categories=None)), st.text(alphabet=st.characters(categories=None)))
def test_every_text_has_a_digest_of_its_own(one: str, other: str) -> None:
    assert (replace(KEY, text=one).digest == replace(KEY, text=other).digest) == (one == other)


def test_where_one_value_ends_and_the_next_begins_matters() -> None:
    assert replace(KEY, text="ab", language="c").digest != replace(KEY, text="a", language="bc").digest
