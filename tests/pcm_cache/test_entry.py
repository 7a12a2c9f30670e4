import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pcm_cache.clip import Clip
from pcm_cache.entry import HEAD_BYTES, BadEntry, decode, encode
from tests.pcm_cache.clips import clip, digest

word = st.tuples(*[st.integers(0, 2**40)] * 4)


@given(
    arrays(np.float32, st.integers(0, 500), elements=st.floats(-1, 1, width=32)),
    st.lists(word, max_size=20),
    st.sampled_from([8000, 22050, 24000, 48000]),
)
def test_what_is_read_is_what_was_written_to_the_last_bit(
    samples: "np.ndarray[tuple[int], np.dtype[np.float32]]",
    words: list[tuple[int, int, int, int]],
    rate_hz: int,
) -> None:
    read = decode(digest(1), encode(digest(1), Clip(samples, tuple(words), rate_hz)))
    assert read.samples.tobytes() == samples.tobytes()
    assert (read.words, read.sample_rate_hz) == (tuple(words), rate_hz)
    assert read.samples.dtype == np.float32


def test_the_layout_is_the_documented_one() -> None:
    data = encode(digest(0xAB), clip(100))
    magic, key, rate_hz, words, samples = struct.unpack_from("<8s20sIIQ", data)
    assert (magic, key, rate_hz, words, samples) == (b"SAYCLIP\x01", bytes(19) + b"\xab", 8000, 2, 100)
    (checksum,) = struct.unpack_from("<I", data, 44)
    assert checksum == zlib.crc32(data[:44] + data[48:])
    assert struct.unpack_from("<8q", data, 48) == (0, 5, 0, 50, 6, 9, 50, 100)
    assert len(data) == 48 + 64 + 400 == HEAD_BYTES + 464


@given(st.integers(0, 1 << 20), st.integers(1, 255))
def test_one_changed_byte_anywhere_is_noticed(place: int, change: int) -> None:
    data = bytearray(encode(digest(1), clip(50)))
    data[place % len(data)] ^= change
    with pytest.raises(BadEntry):
        decode(digest(1), bytes(data))


@given(st.integers(0, 1 << 20))
def test_every_shorter_file_is_noticed(length: int) -> None:
    data = encode(digest(1), clip(50))
    with pytest.raises(BadEntry):
        decode(digest(1), data[: length % len(data)])


@given(st.binary(max_size=300))
def test_any_bytes_are_a_bad_entry_and_nothing_else(data: bytes) -> None:
    with pytest.raises(BadEntry):
        decode(digest(1), data)


def test_a_longer_file_is_noticed() -> None:
    with pytest.raises(BadEntry, match="length"):
        decode(digest(1), encode(digest(1), clip()) + b"\0")


def test_an_entry_under_another_name_is_noticed() -> None:
    with pytest.raises(BadEntry, match="another key"):
        decode(digest(2), encode(digest(1), clip()))


def test_lengths_that_would_take_the_memory_of_the_machine_are_only_wrong() -> None:
    data = bytearray(encode(digest(1), clip()))
    struct.pack_into("<Q", data, 36, 2**63)
    with pytest.raises(BadEntry):
        decode(digest(1), bytes(data))
