"""Limits that fit each other."""

from dataclasses import replace

import pytest

from protocol.codec import MSGPACK
from protocol.limits import TRANSPORT_MESSAGE_BYTES, Limits
from protocol.messages import Text, WireLimits

DEFAULT = Limits()


def test_what_travels_is_what_is_set() -> None:
    limits = replace(DEFAULT, utterances=3, receipt_s=7.5)
    wire = limits.wire()
    assert isinstance(wire, WireLimits)
    assert all(getattr(wire, name) == getattr(limits, name) for name in WireLimits.__struct_fields__)
    assert (wire.utterances, wire.receipt_s) == (3, 7.5)


@pytest.mark.parametrize("character", ["a", "é", "語", "😀"])
def test_the_longest_increment_of_any_script_fits_a_message(character: str) -> None:
    message = Text(id="i" * 64, text=character * DEFAULT.text_chars)
    packed = MSGPACK.encode_client(message)
    assert MSGPACK.decode_client(packed, message_bytes=DEFAULT.message_bytes) == message


def test_the_defaults_of_an_open_are_within_the_limits() -> None:
    assert DEFAULT.lead_ms_default <= DEFAULT.lead_ms
    assert DEFAULT.text_chars <= DEFAULT.total_chars
    assert DEFAULT.message_bytes <= TRANSPORT_MESSAGE_BYTES


def test_the_defaults_are_those_of_the_wire() -> None:
    assert (DEFAULT.receipt_s, DEFAULT.wait_ms, DEFAULT.utterance_idle_s) == (60, 300, 120)
    assert (DEFAULT.lead_ms_default, DEFAULT.cushion_ms, DEFAULT.stall_ms) == (3000, 200, 1500)
