"""Formats, rates and frame lengths as a client gets them from a real server with the real voice."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import pytest
import soundfile
import soxr
from numpy.typing import NDArray

from protocol.messages import Format, SampleRate
from saystream import Client
from saystream.client import OpenFields
from tests.serving import Server, serving

TEXT = "Every format carries the same voice."
SUBTYPES: dict[Format, str] = {"s16le": "PCM_16", "f32le": "FLOAT", "mulaw": "ULAW", "alaw": "ALAW"}
BYTES: dict[Format, int] = {"s16le": 2, "f32le": 4, "mulaw": 1, "alaw": 1}

pytestmark = pytest.mark.real_voice


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@dataclass(frozen=True, slots=True)
class Heard:
    frames: list[bytes]
    format: Format
    rate_hz: int

    @property
    def samples(self) -> NDArray[np.float32]:
        coded = io.BytesIO(b"".join(self.frames))
        read = soundfile.read(
            coded,
            dtype="float32",
            format="RAW",
            subtype=SUBTYPES[self.format],
            samplerate=self.rate_hz,
            channels=1,
            endian="LITTLE",
        )[0]
        return np.asarray(read, dtype=np.float32)


async def speak(server: Server, **fields: Unpack[OpenFields]) -> Heard:
    fields = {"seed": 7, "cache": False, **fields}
    async with (
        Client(server.ws_url) as client,
        client.utterance(**fields) as utterance,
    ):
        await utterance.feed(TEXT)
        await utterance.end()
        frames = [frame async for frame in utterance]
    audio_format = fields["format"]
    assert {frame.format for frame in frames} == {audio_format}
    at = 0
    for frame in frames:
        assert frame.at_sample == at
        at += len(frame.pcm) // BYTES[audio_format]
    return Heard([frame.pcm for frame in frames], audio_format, frames[0].sample_rate_hz)


def difference_db(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    """How far the noise between two signals lies under the first."""
    assert len(a) == len(b)
    return float(10 * np.log10(np.sum((a - b) ** 2) / np.sum(a**2) + 1e-12))


# 16 bit leave about 96 dB under full scale, less the level of speech; G.711 is made for 38 dB.
@pytest.mark.parametrize(("audio_format", "under_db"), [("s16le", -60), ("mulaw", -33), ("alaw", -33)])
async def test_each_format_carries_the_same_samples(
    server: Server, audio_format: Format, under_db: float
) -> None:
    exact = await speak(server, format="f32le", sample_rate_hz=8000)
    coded = await speak(server, format=audio_format, sample_rate_hz=8000)
    assert difference_db(exact.samples, coded.samples) < under_db


@pytest.mark.parametrize("rate_hz", [8000, 16000, 22050, 44100, 48000])
async def test_each_rate_is_the_engines_own_resampled_in_one_piece(
    server: Server, rate_hz: SampleRate
) -> None:
    own = await speak(server, format="f32le")
    asked = await speak(server, format="f32le", sample_rate_hz=rate_hz)
    assert asked.rate_hz == rate_hz
    np.testing.assert_allclose(
        asked.samples, np.clip(soxr.resample(own.samples, own.rate_hz, rate_hz), -1, 1), atol=1e-6
    )


async def test_telephone_formats_are_8_khz_unless_told_otherwise(server: Server) -> None:
    assert (await speak(server, format="mulaw")).rate_hz == 8000
    assert (await speak(server, format="alaw", sample_rate_hz=16000)).rate_hz == 16000


async def test_a_telephone_gets_frames_of_20_ms_and_one_shorter_at_the_end(server: Server) -> None:
    heard = await speak(server, format="mulaw", frame_ms=20)
    assert {len(frame) for frame in heard.frames[:-1]} == {160}
    assert 0 < len(heard.frames[-1]) <= 160


async def test_the_first_frame_is_20_ms_and_no_other_is_longer_than_100_ms(server: Server) -> None:
    heard = await speak(server, format="s16le", sample_rate_hz=24000)
    assert len(heard.frames[0]) == 480 * 2
    assert max(len(frame) for frame in heard.frames) <= 2400 * 2
