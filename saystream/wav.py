"""WAV headers for a stream: written before the length is known, mended afterwards where that can be done."""

import struct

from protocol.messages import Format
from protocol.order import SAMPLE_BYTES

_UNKNOWN_BYTES = 0xFFFFFFFF
"""What readers of a pipe (ffmpeg, sox, aplay) take for 'until the end'."""
_PCM, _FLOAT, _ALAW, _MULAW = 1, 3, 6, 7
_KINDS: dict[Format, int] = {"s16le": _PCM, "f32le": _FLOAT, "alaw": _ALAW, "mulaw": _MULAW}


def header(audio_format: Format, sample_rate_hz: int, data_bytes: int | None = None) -> bytes:
    """The bytes before the samples; `data_bytes` None: unknown. Its length doesn't depend on `data_bytes`."""
    kind, width = _KINDS[audio_format], SAMPLE_BYTES[audio_format]
    fmt = struct.pack("<HHIIHH", kind, 1, sample_rate_hz, sample_rate_hz * width, width, width * 8)
    if kind == _PCM:
        chunks = _chunk(b"fmt ", fmt)
    else:  # every other kind has the size of its extension, and the number of samples in a `fact` chunk
        samples = _UNKNOWN_BYTES if data_bytes is None else data_bytes // width
        chunks = _chunk(b"fmt ", fmt + struct.pack("<H", 0)) + _chunk(b"fact", struct.pack("<I", samples))
    data_head_bytes = 8
    if data_bytes is None:
        riff_bytes = data_chunk_bytes = _UNKNOWN_BYTES
    else:
        data_chunk_bytes = min(data_bytes, _UNKNOWN_BYTES)
        riff_bytes = min(4 + len(chunks) + data_head_bytes + data_bytes + data_bytes % 2, _UNKNOWN_BYTES)
    riff = struct.pack("<4sI4s", b"RIFF", riff_bytes, b"WAVE")
    return riff + chunks + struct.pack("<4sI", b"data", data_chunk_bytes)


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack("<4sI", name, len(body)) + body
