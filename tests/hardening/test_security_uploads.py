"""What an uploaded file could make the server do: only formats that are said to be read reach their decoder."""

import io

import numpy as np
import pytest
import soundfile

from voices.errors import NotReadable
from voices.reading import Bounds, read

RATE_HZ = 16_000
SPEECH_LIKE = (0.3 * np.sin(2 * np.pi * 220 * np.arange(2 * RATE_HZ) / RATE_HZ)).astype(np.float32)


def written(kind: str, subtype: str = "PCM_16") -> io.BytesIO:
    file = io.BytesIO()
    soundfile.write(file, SPEECH_LIKE, RATE_HZ, format=kind, subtype=subtype)
    file.seek(0)
    return file


@pytest.mark.parametrize(
    "kind", ["XI", "VOC", "NIST", "IRCAM", "PAF", "SVX", "MAT5", "PVF", "HTK", "AVR", "SDS"]
)
def test_a_format_that_nobody_records_in_is_not_decoded(kind: str) -> None:
    subtype = "DPCM_16" if kind == "XI" else "PCM_16"
    with pytest.raises(NotReadable):
        read(written(kind, subtype), Bounds())


@pytest.mark.parametrize(
    ("kind", "subtype"),
    [
        ("WAV", "PCM_16"),
        ("WAVEX", "PCM_16"),
        ("RF64", "PCM_16"),
        ("FLAC", "PCM_16"),
        ("OGG", "VORBIS"),
        ("OGG", "OPUS"),
        ("MP3", "MPEG_LAYER_III"),
        ("AIFF", "PCM_16"),
        ("AU", "PCM_16"),
        ("CAF", "PCM_16"),
        ("W64", "PCM_16"),
    ],
)
def test_a_format_that_is_said_to_be_read_is(kind: str, subtype: str) -> None:
    assert abs(read(written(kind, subtype), Bounds()).samples.size - SPEECH_LIKE.size) < RATE_HZ // 10
