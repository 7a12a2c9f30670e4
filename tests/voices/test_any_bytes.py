"""Whatever is uploaded, it becomes a sound clip or one of the errors that are meant for people."""

import io

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.voices.recordings import encoded, tone
from voices.clip import Clip
from voices.errors import VoicesError
from voices.preparing import prepare
from voices.reading import Bounds, read
from voices.report import Report

FILES = [
    encoded(tone(length_s=1.5, rate_hz=8000), 8000, kind, subtype)
    for kind, subtype in (
        ("WAV", "PCM_16"),
        ("WAV", "FLOAT"),
        ("WAV", "IMA_ADPCM"),
        ("FLAC", "PCM_16"),
        ("OGG", "VORBIS"),
        ("MP3", "MPEG_LAYER_III"),
        ("AIFF", "PCM_16"),
        ("AU", "PCM_16"),
        ("CAF", "PCM_16"),
        ("W64", "PCM_16"),
    )
]
BOUNDS = Bounds(max_bytes=1_000_000)


def taken(data: bytes) -> None:
    made, reason = _made(data)
    assert len(reason) < 200
    assert "\n" not in reason
    if made is not None:
        clip, report = made
        assert BOUNDS.least_s <= clip.duration_s <= BOUNDS.most_s + 0.1
        assert np.abs(clip.pcm.astype(int)).max() <= 32768
        assert report.duration_s == pytest.approx(clip.duration_s, abs=0.001)


def _made(data: bytes) -> tuple[tuple[Clip, Report] | None, str]:
    try:
        recording = read(io.BytesIO(data), BOUNDS)
        return prepare(recording, BOUNDS, transcript="one two three"), ""
    except VoicesError as error:
        return None, str(error)


@given(st.binary(max_size=2000))
@example(b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0data\0\0\0\0")
def test_any_bytes(data: bytes) -> None:
    taken(data)


@given(
    st.sampled_from(FILES),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=12),
    st.floats(0.01, 1),
)
def test_any_damage_to_a_real_file(data: bytes, changes: list[tuple[int, int]], part: float) -> None:
    damaged = bytearray(data[: max(1, int(len(data) * part))])
    for at, value in changes:
        damaged[at % len(damaged)] = value
    taken(bytes(damaged))
