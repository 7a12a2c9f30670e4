"""V5, V7, V10: what is read, and what is refused with which reason."""

import io
import struct
from typing import Any

import numpy as np
import pytest

from tests.voices.recordings import RATE_HZ, encoded, tone
from voices.errors import NotReadable, TooLarge, Unusable
from voices.reading import Bounds, read

BOUNDS = Bounds()


def reads(data: bytes, bounds: Bounds = BOUNDS) -> Any:
    return read(io.BytesIO(data), bounds)


@pytest.mark.parametrize(
    ("kind", "subtype", "rate_hz"),
    [
        ("WAV", "PCM_16", 24000),
        ("WAV", "PCM_U8", 8000),
        ("WAV", "PCM_24", 96000),
        ("WAV", "FLOAT", 44100),
        ("WAV", "ULAW", 8000),
        ("FLAC", "PCM_24", 192_000),
        ("OGG", "VORBIS", 44100),
        ("OGG", "OPUS", 48000),
        ("MP3", "MPEG_LAYER_III", 44100),
        ("AIFF", "PCM_16", 22050),
        ("AU", "PCM_16", 16000),
        ("CAF", "PCM_16", 48000),
        ("W64", "PCM_16", 48000),
    ],
)
def test_what_libsndfile_reads_is_read(kind: str, subtype: str, rate_hz: int) -> None:
    found = reads(encoded(tone(rate_hz=rate_hz), rate_hz, kind, subtype))
    assert found.sample_rate_hz == rate_hz
    assert found.samples.size / rate_hz == pytest.approx(4.0, abs=0.1)
    loudest_hz = np.abs(np.fft.rfft(found.samples)).argmax() * rate_hz / found.samples.size
    assert loudest_hz == pytest.approx(440, abs=2)


def test_two_channels_are_mixed() -> None:
    both = np.stack([tone(level=0.2), tone(level=0.4)], axis=1)
    found = reads(encoded(both, subtype="FLOAT"))
    np.testing.assert_allclose(found.samples, tone(level=0.3), atol=1e-6)
    assert found.repaired == ("mixed two channels to one",)


def test_of_two_channels_that_cancel_each_other_the_louder_is_taken() -> None:
    both = np.stack([-tone(level=0.19), tone(level=0.2)], axis=1)
    found = reads(encoded(both, subtype="FLOAT"))
    np.testing.assert_allclose(found.samples, tone(level=0.2), atol=1e-6)
    assert found.repaired == ("took the louder channel",)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\0\0\0\x20ftypM4A \0\0\0\0M4A mp42isom", "M4A"),
        (b"\x1a\x45\xdf\xa3" + bytes(100), "WebM"),
        (b"\xff\xf1\x50\x80" + bytes(100), "AAC"),
        (b"<!doctype html><title>Not found</title>", "web page"),
        (b"https://example.com/voice.wav", "no audio"),
        (b"/etc/passwd", "no audio"),
        (bytes(5000), "no audio"),
    ],
)
def test_what_cannot_be_read_is_named_and_what_can_is_listed(data: bytes, kind: str) -> None:
    with pytest.raises(NotReadable, match=f"{kind}.*wav, flac, ogg.*mp3"):
        reads(data)


@pytest.mark.parametrize("kind", ["WAV", "AIFF", "FLAC", "AU", "W64", "CAF"])
@pytest.mark.parametrize("part", [0.1, 0.5, 0.95])
def test_a_file_whose_end_is_missing_is_refused(kind: str, part: float) -> None:
    data = encoded(tone(), kind=kind)
    with pytest.raises(Unusable, match="cut short"):
        reads(data[: int(len(data) * part)])


@pytest.mark.parametrize("kind", ["OGG", "MP3"])
def test_a_compressed_file_without_its_second_half_is_refused_or_shorter(kind: str) -> None:
    data = encoded(tone(), kind=kind)
    try:
        found = reads(data[: len(data) // 2])
    except Unusable:
        return
    assert found.samples.size < 3 * RATE_HZ


def test_a_program_that_did_not_know_the_length_is_believed() -> None:
    data = bytearray(encoded(tone()))
    at = data.index(b"data")
    data[4:8] = data[at + 4 : at + 8] = struct.pack("<I", 0xFFFFFFFF)
    assert reads(bytes(data)).samples.size == 4 * RATE_HZ


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty file"),
        (encoded(np.zeros(0)), "no sound"),
        (encoded(tone(length_s=61)), "61 s; 60 s is the most"),
        (encoded(np.zeros((48000, 6)) + 0.1), "6 channels"),
        (encoded(tone(rate_hz=4000), 4000), "4000 Hz"),
        (encoded(np.full(48000, np.nan), subtype="FLOAT"), "aren't numbers"),
        (encoded(np.full(48000, np.inf), subtype="FLOAT"), "aren't numbers"),
        (b"RIFF\xff\xff\0\0WAVEfmt ", "broken or cut short"),
        (b"OggS" + bytes(200), "broken or cut short"),
        (b"fLaC" + bytes(200), "broken or cut short"),
        (b"ID3" + bytes(200), "broken or cut short"),
    ],
)
def test_what_will_not_do_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(Unusable, match=reason) as caught:
        reads(data)
    assert caught.value.param == "audio"


def test_twenty_minutes_are_refused_before_they_are_decoded() -> None:
    quiet = encoded(np.zeros(1200 * 8000), 8000, "FLAC")
    with pytest.raises(Unusable, match="1200 s"):
        reads(quiet)


def test_more_bytes_than_allowed_are_refused() -> None:
    with pytest.raises(TooLarge, match="100 is the most"):
        reads(encoded(tone()), Bounds(max_bytes=100))
