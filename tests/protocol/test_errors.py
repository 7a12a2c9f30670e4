"""The table of errors, and what is made from it."""

from typing import get_args

import pytest

from protocol import errors
from protocol.errors import (
    ERROR_CODES,
    BadMessage,
    ErrorCode,
    LocalProtocolError,
    ProtocolError,
    RemoteProtocolError,
    make_error,
    make_refusal,
)

HOPEFUL = {
    "too_many_utterances",
    "busy",
    "rate_limited",
    "engine_failed",
    "engine_stalled",
    "idle_timeout",
    "shutting_down",
}


@pytest.mark.parametrize("code", get_args(ErrorCode))
def test_an_error_says_whether_to_try_again(code: ErrorCode) -> None:
    error = make_error(code, "why", id="a", param="p", value=[1], retry_after_ms=5)
    assert error.retryable == (code in HOPEFUL)
    assert (error.code, error.message, error.id, error.param, error.value, error.retry_after_ms) == (
        code,
        "why",
        "a",
        "p",
        [1],
        5,
    )
    assert ERROR_CODES[code].text


def test_a_refusal_is_an_error_and_its_done() -> None:
    error = make_error("unknown_voice", "who?", id="a")
    first, last = make_refusal(error, "t")
    assert first is error
    assert (last.id, last.reason, last.samples, last.chars, last.tag, last.heard) == (
        "a",
        "failed",
        0,
        0,
        "t",
        None,
    )
    assert (last.stats.segments, last.stats.ttfa_ms) == (0, None)


def test_a_refusal_without_an_id_is_a_fault() -> None:
    with pytest.raises(ValueError, match="names its utterance"):
        make_refusal(make_error("busy", "later"), None)


def test_each_error_of_the_package_has_its_root_and_its_line_in_the_tree() -> None:
    for cls in (BadMessage, LocalProtocolError, RemoteProtocolError):
        assert issubclass(cls, ProtocolError)
        assert errors.__doc__ is not None
        assert cls.__name__ in errors.__doc__
