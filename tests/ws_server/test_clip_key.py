"""What shapes a segment's sound changes its key, and nothing else does."""

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines import registry
from engines.contract import BuiltinVoice, Facts, Info, Request
from engines.tone_settings import ToneOptions
from ws_server.clip_key import clip_key

REQUEST = Request(text="Hello.", language="en-US", voice="a4", speed=1.0, seed=1, options=ToneOptions())
FACTS = Facts(checkpoint="c", sample_rate_hz=24000)
INFO = Info(
    name="tone",
    version="1",
    extra=None,
    devices=frozenset({"cpu"}),
    languages={"en-US": "en"},
    voices=(BuiltinVoice("a4", "A4", "en-US"),),
)

SHAPES: dict[tuple[type, str], Any] = {
    (Request, "text"): "Hello!",
    (Request, "language"): "en",
    (Request, "speed"): 1.25,
    (Request, "seed"): 2,
    (Request, "options"): ToneOptions(at_step=1),
    (Facts, "checkpoint"): "d",
    (Facts, "sample_rate_hz"): 48000,
    (Facts, "sampling"): True,
    (Facts, "exact_words"): True,
    (Info, "name"): "hibari",
    (Info, "version"): "2",
}
"""Another value for each field that is in the key."""

REASONS: dict[tuple[type, str], tuple[Any, str]] = {
    (Request, "voice"): ("a5", "the voice's content stands for it: an id can come to mean another sound"),
    (Request, "last"): (False, "only whole segments are kept"),
    (Facts, "max_open"): (3, "how many can be made at once, not what"),
    (Facts, "max_batch"): (4, "how many can be made at once, not what"),
    (Facts, "step_s"): (0.1, "streamed equals one-shot: the contract's tests hold every engine to it"),
    (Facts, "speed"): ((0.5, 2.0), "which requests are taken; the request's own speed is in the key"),
    (Facts, "max_chars"): (100, "shapes the cuts, and so the text, which is in the key"),
    (Facts, "max_sentences"): (3, "shapes the cuts, and so the text, which is in the key"),
    (Facts, "grows"): (True, "only whole segments are kept"),
    (Facts, "footprint_bytes"): ({"": 1}, "what it takes, not what it makes"),
    (Facts, "languages"): ({"de": "de"}, "which there are; the request's own is in the key"),
    (Facts, "voices"): ((), "which there are; the one that speaks is in the key"),
    (Facts, "clones"): (frozenset({"audio"}), "what it can do; the voice's content is in the key"),
    (Info, "extra"): ("more", "how it is installed"),
    (Info, "devices"): (frozenset({"cuda"}), "where it may run; the checkpoint is the same everywhere"),
    (Info, "languages"): ({"en-US": "en", "de": "de"}, "which there are; the request's own is in the key"),
    (Info, "synthetic"): (True, "which engine is chosen; its name is in the key"),
    (Info, "hosted"): (True, "where it runs: hosted speaks exactly as inline"),
    (Info, "scripts"): (frozenset({"Latin"}), "which text is refused; the text itself is in the key"),
    (Info, "voices"): ((), "which there are; the one that speaks is in the key"),
    (Info, "blends"): (True, "which voices there are; the one that speaks is in the key"),
    (Info, "clones"): (frozenset({"audio"}), "what it can do; the voice's content is in the key"),
    (Info, "options"): (ToneOptions, "their type; their values are in the key"),
}
"""Another value for each field that isn't, and why."""

ALL = [(kind, field.name) for kind in (Request, Facts, Info) for field in fields(kind)]


def digest(**changes: Any) -> str:
    parts: dict[str, Any] = {
        "request": REQUEST,
        "facts": FACTS,
        "info": INFO,
        "voice_content": "a4",
        **changes,
    }
    return clip_key(**parts).digest


def changed(kind: type, name: str, value: Any) -> str:
    part, before = {Request: ("request", REQUEST), Facts: ("facts", FACTS), Info: ("info", INFO)}[kind]
    assert getattr(before, name) != value
    return digest(**{part: replace(before, **{name: value})})  # type: ignore[type-var]


@pytest.mark.parametrize(("kind", "name"), ALL, ids=[f"{kind.__name__}.{name}" for kind, name in ALL])
def test_every_field_of_what_an_engine_is_told_is_in_the_key_or_has_a_reason_not_to_be(
    kind: type, name: str
) -> None:
    """C1, fault 9"""
    field = (kind, name)
    assert (field in SHAPES) != (field in REASONS), "a new field: is it part of the sound?"
    if field in SHAPES:
        assert changed(kind, name, SHAPES[field]) != digest()
    else:
        assert changed(kind, name, REASONS[field][0]) == digest()


def test_no_reason_is_given_for_what_is_not_there() -> None:
    assert {*SHAPES, *REASONS} == set(ALL)


def test_a_voice_with_another_content_is_another_sound() -> None:
    assert digest(voice_content="b") != digest()


@pytest.mark.parametrize("name", [field.name for field in fields(ToneOptions)])
def test_every_option_of_an_engine_is_in_the_key(name: str) -> None:
    value = {"fault": "nan", "at_step": 3, "only_seed": 5, "stall_s": 2.0}[name]
    options = replace(ToneOptions(), **{name: value})  # type: ignore[arg-type]
    assert digest(request=replace(REQUEST, options=options)) != digest()


@pytest.mark.parametrize("name", registry.names())
def test_the_options_of_every_engine_can_be_part_of_a_key(name: str) -> None:
    kind = registry.describe(name).info.options
    options = None if kind is None else kind()
    assert digest(request=replace(REQUEST, options=options))


requests = st.builds(
    Request,
    text=st.text(min_size=1, max_size=8),
    language=st.sampled_from(["en", "en-US"]),
    voice=st.just("a4"),
    speed=st.floats(0.25, 4),
    seed=st.integers(0, 2**63 - 1),
    options=st.none() | st.builds(ToneOptions, at_step=st.integers(0, 9), stall_s=st.floats(0, 600)),
)


@given(requests, requests)
def test_two_requests_have_one_key_only_if_they_are_the_same(one: Request, other: Request) -> None:
    assert (digest(request=one) == digest(request=other)) == (repr(one) == repr(other))


def test_an_option_that_is_not_a_plain_value_is_no_key() -> None:
    with pytest.raises(TypeError, match="object"):
        digest(request=replace(REQUEST, options={"x": object()}))
