import io

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from engines.contract import Samples
from protocol.messages import Format
from ws_server.audio.encoding import encode


def floats(*values: float) -> Samples:
    return np.array(values, dtype=np.float32)


def test_s16le_rounds_to_the_nearest_and_doesnt_truncate() -> None:
    samples = floats(0.6 / 32767, -0.6 / 32767, 1.4 / 32767, -1.4 / 32767)
    assert encode(samples, "s16le") == b"\x01\x00\xff\xff\x01\x00\xff\xff"


def test_s16le_is_little_endian_and_saturates_instead_of_wrapping() -> None:
    assert encode(floats(1.0, 1.5, 40.0), "s16le") == b"\xff\x7f" * 3
    assert encode(floats(-1.0, -1.5, -40.0), "s16le") == b"\x01\x80" * 3


def test_f32le_is_the_sample_itself_within_full_scale() -> None:
    coded = encode(floats(0.1, -0.25, 1.5, -2.0), "f32le")
    assert np.frombuffer(coded, "<f4").tolist() == [np.float32(0.1), -0.25, 1.0, -1.0]


@given(st.lists(st.floats(-1.25, 1.25, width=32), max_size=200))
def test_s16le_agrees_with_libsndfile_which_rounds_down_from_a_scale_of_32768(values: list[float]) -> None:
    file = io.BytesIO()
    soundfile.write(file, floats(*values), 8000, format="RAW", subtype="PCM_16", endian="LITTLE")
    theirs = np.frombuffer(file.getvalue(), "<i2").astype(int)
    ours = np.frombuffer(encode(floats(*values), "s16le"), "<i2").astype(int)
    assert len(ours) == len(theirs)
    assert np.all(np.abs(ours - theirs) <= 2)


@pytest.mark.parametrize("audio_format", ["s16le", "f32le", "mulaw", "alaw"])
def test_the_callers_samples_arent_touched(audio_format: Format) -> None:
    samples = floats(0.5, 2.0, -2.0)
    samples.flags.writeable = False
    encode(samples, audio_format)
    assert samples.tolist() == [0.5, 2.0, -2.0]


def test_nothing_is_no_bytes() -> None:
    assert encode(floats(), "s16le") == b""
