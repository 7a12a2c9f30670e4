"""What an uploaded file could make the server do: only formats that are said to be read reach their decoder."""

import io
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.ws_server.running import running
from voices.errors import NotReadable
from voices.reading import Bounds, read

RATE_HZ = 16_000
SPEECH_LIKE = (0.3 * np.sin(2 * np.pi * 220 * np.arange(2 * RATE_HZ) / RATE_HZ)).astype(np.float32)


def written(kind: str, subtype: str = "PCM_16") -> io.BytesIO:
    file = io.BytesIO()
    soundfile.write(file, SPEECH_LIKE, RATE_HZ, format=kind, subtype=subtype)
    file.seek(0)
    return file


FLOODS = {
    "heads": (b"--b\r\n", b"a:b\r\n" * 10_000),
    "one head": (b"--b\r\nX: ", b"x" * 60_000),
    "a name": (b'--b\r\nContent-Disposition: form-data; name="', b"x" * 60_000),
    "parts": (b"", b'--b\r\nContent-Disposition: form-data; name="audio"; filename="x"\r\n\r\n\r\n' * 500),
    "fields": (b"", b'--b\r\nContent-Disposition: form-data; name="name"\r\n\r\n\r\n' * 500),
    "a field": (b'--b\r\nContent-Disposition: form-data; name="name"\r\n\r\n', b"x" * 60_000),
}


@pytest.mark.parametrize("what", FLOODS)
async def test_a_form_of_nothing_but(what: str, tmp_path: Path) -> None:
    """Is refused for what it is, not for its 3 MB, and leaves nothing."""
    first, more = FLOODS[what]

    async def body() -> AsyncIterator[bytes]:
        yield first
        for _ in range(50):
            yield more

    async with running(voices_dir=tmp_path / "voices") as server:
        answer = await server.http.post(
            "/v1/voices", content=body(), headers={"content-type": "multipart/form-data; boundary=b"}
        )
        assert answer.status_code == 400
        assert "the form can't be read" in answer.text
        assert not (tmp_path / "voices").exists()


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
