"""WAV headers, read by other libraries."""

import io
import wave
from typing import get_args

import numpy as np
import pytest
import soundfile

from protocol.messages import Format
from saystream import wav

SUBTYPES = {"s16le": "PCM_16", "f32le": "FLOAT", "mulaw": "ULAW", "alaw": "ALAW"}
SAMPLE_BYTES = {"s16le": 2, "f32le": 4, "mulaw": 1, "alaw": 1}


@pytest.mark.parametrize("audio_format", get_args(Format))
def test_other_libraries_read_the_header(audio_format: Format) -> None:
    data = bytes(100 * SAMPLE_BYTES[audio_format])
    info = soundfile.info(io.BytesIO(wav.header(audio_format, 22050, len(data)) + data))
    assert (info.samplerate, info.channels, info.frames, info.subtype) == (
        22050,
        1,
        100,
        SUBTYPES[audio_format],
    )


def test_the_standard_library_reads_plain_pcm() -> None:
    samples = np.arange(50, dtype="<i2")
    with wave.open(io.BytesIO(wav.header("s16le", 8000, 100) + samples.tobytes())) as reader:
        assert (reader.getframerate(), reader.getnframes()) == (8000, 50)
        assert reader.readframes(50) == samples.tobytes()


@pytest.mark.parametrize("audio_format", get_args(Format))
def test_an_unknown_length_takes_as_much_room_as_a_known_one(audio_format: Format) -> None:
    assert len(wav.header(audio_format, 8000)) == len(wav.header(audio_format, 8000, 1234))


def test_an_unknown_length_is_read_to_the_end() -> None:
    samples = np.arange(50, dtype="<i2")
    read, rate_hz = soundfile.read(io.BytesIO(wav.header("s16le", 8000) + samples.tobytes()), dtype="int16")
    assert rate_hz == 8000
    assert read.tolist() == samples.tolist()
