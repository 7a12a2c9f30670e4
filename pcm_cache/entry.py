"""A clip as one file: a header with lengths and a checksum, word times, samples."""

import struct
import zlib

import numpy as np

from pcm_cache.clip import Clip

MAGIC = b"SAYCLIP\x01"
"""Its last byte is the version: another layout is another magic, and so a miss."""
_HEAD = struct.Struct("<8s20sIIQI")
"""magic, key digest, sample rate in Hz, words, samples, CRC-32 of all else"""
HEAD_BYTES = _HEAD.size
_CRC_BYTES = 4
_WORD_BYTES = 4 * 8
_SAMPLE_BYTES = 4
_RATES_HZ = range(1, 1_000_000)


class BadEntry(Exception):  # noqa: N818 - named by situation
    """Bytes that aren't a whole, unharmed entry of this key."""


def encode(digest: str, clip: Clip) -> bytes:
    words = np.array(clip.words, "<i8").reshape(-1, 4)
    samples = clip.samples.astype("<f4", copy=False)
    head = _HEAD.pack(MAGIC, bytes.fromhex(digest), clip.sample_rate_hz, len(words), len(samples), 0)
    body = words.tobytes() + samples.tobytes()
    checksum = zlib.crc32(body, zlib.crc32(head[:-_CRC_BYTES]))
    return head[:-_CRC_BYTES] + struct.pack("<I", checksum) + body


def decode(digest: str, data: bytes) -> Clip:
    """`digest`: of the key that was looked for; a file under a wrong name is a bad one. Raises BadEntry."""
    if len(data) < HEAD_BYTES:
        raise BadEntry("shorter than its header")
    magic, key, rate_hz, words, samples, checksum = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise BadEntry("not an entry, or of another version")
    if key.hex() != digest:
        raise BadEntry("of another key")
    if len(data) != HEAD_BYTES + words * _WORD_BYTES + samples * _SAMPLE_BYTES or rate_hz not in _RATES_HZ:
        raise BadEntry("its length isn't the one in its header")
    body = memoryview(data)[HEAD_BYTES:]
    if zlib.crc32(body, zlib.crc32(data[: HEAD_BYTES - _CRC_BYTES])) != checksum:
        raise BadEntry("its checksum is wrong")
    rows = np.frombuffer(body, "<i8", words * 4).reshape(-1, 4).tolist()
    sound = np.frombuffer(body, "<f4", samples, words * _WORD_BYTES)
    return Clip(sound.astype(np.float32, copy=False), tuple((a, b, s, e) for a, b, s, e in rows), rate_hz)
