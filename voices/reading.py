"""Reads an uploaded file, whatever libsndfile knows, within bounds, and says why it can't."""

import os
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import soundfile
from numpy.typing import NDArray

from voices.errors import NotReadable, TooLarge, Unusable

READS = "wav, flac, ogg (Vorbis, Opus), mp3, aiff, au, caf and w64"
LOWEST_HZ, HIGHEST_HZ = 8000, 192_000
_KINDS = (
    (4, b"ftyp", "an MP4 or M4A file"),
    (0, b"\x1a\x45\xdf\xa3", "a WebM or Matroska file"),
    (0, b"\xff\xf1", "an AAC file"),
    (0, b"\xff\xf9", "an AAC file"),
    (0, b"\x30\x26\xb2\x75", "a WMA file"),
    (0, b"#!AMR", "an AMR file"),
    (0, b"PK\x03\x04", "a ZIP archive"),
    (0, b"%PDF", "a PDF file"),
    (0, b"\x89PNG", "a picture"),
    (0, b"\xff\xd8\xff", "a picture"),
    (0, b"<", "a text or web page"),
    (0, b"{", "a JSON text"),
)
_READABLE = (
    b"RIFF",
    b"RIFX",
    b"RF64",
    b"FORM",
    b"fLaC",
    b"OggS",
    b".snd",
    b"caff",
    b"riff",
    b"ID3",
    *(bytes([0xFF, second]) for second in (0xFB, 0xFA, 0xF3, 0xF2, 0xE3, 0xE2)),
)
"""How a file of a format that is read begins; the last are frames of MP3. libsndfile knows many more formats, by code
that nobody's voice needs and nobody looks at."""
_FORMATS = frozenset({"WAV", "WAVEX", "RF64", "FLAC", "OGG", "MP3", "AIFF", "AU", "CAF", "W64"})
_BLOCK_SAMPLES = 1 << 16
_DECLARED = frozenset({"RIFF", "riff", "data", "FORM", "SSND", "Data Size"})
_UNKNOWN_LENGTH = 0xFFFFFF00
"""A length of all ones, or nearly, is what a program writes that didn't know it yet."""
_MUCH_LOUDER = 10.0
"""Times the energy of the mix that one channel must have to be taken alone: the channels cancel each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a recording may be."""

    max_bytes: int = 20_000_000
    least_s: float = 1.0
    most_s: float = 60.0


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    samples: NDArray[np.float64]
    """float64 [n], mono, as it was recorded"""
    sample_rate_hz: int
    repaired: tuple[str, ...] = ()


def read(file: BinaryIO, bounds: Bounds, *, param: str = "audio") -> Recording:
    """Raises NotReadable, TooLarge or Unusable; `param` is the field that the file came in."""
    size_bytes = _size_bytes(file)
    if size_bytes > bounds.max_bytes:
        raise TooLarge(f"{param} has {size_bytes} bytes; {bounds.max_bytes} is the most")
    if size_bytes == 0:
        raise Unusable(param, f"{param} is an empty file")
    head = file.read(16)
    file.seek(0)
    if not head.startswith(_READABLE):
        raise _not_readable(param, head)
    try:
        with soundfile.SoundFile(file) as sound:
            if sound.format not in _FORMATS:
                raise _not_readable(param, head)
            frames = _frames(sound, bounds, param)
            return _mono(frames, sound.samplerate, param)
    except soundfile.SoundFileError as error:
        raise Unusable(param, f"{param} is broken or cut short") from error


def _not_readable(param: str, head: bytes) -> NotReadable:
    return NotReadable(f"{param} is {_kind(head)}; what can be read is {READS}")


def _size_bytes(file: BinaryIO) -> int:
    size_bytes = file.seek(0, os.SEEK_END)
    file.seek(0)
    return size_bytes


def _kind(head: bytes) -> str:
    for at, mark, kind in _KINDS:
        if head[at : at + len(mark)] == mark:
            return kind
    return "no audio that is known here, or broken"


def _frames(sound: soundfile.SoundFile, bounds: Bounds, param: str) -> NDArray[np.float32]:
    """float32 [frames, channels]"""
    if not LOWEST_HZ <= sound.samplerate <= HIGHEST_HZ:
        raise Unusable(
            param, f"{param} has {sound.samplerate} Hz; it can have {LOWEST_HZ} to {HIGHEST_HZ} Hz"
        )
    if sound.channels > 2:
        raise Unusable(param, f"{param} has {sound.channels} channels; it can have one or two")
    if sound.frames > bounds.most_s * sound.samplerate:
        length_s = sound.frames / sound.samplerate
        raise Unusable(
            param,
            f"{param} lasts {length_s:.0f} s; {bounds.most_s:.0f} s is the most, and ten to thirty are best",
        )
    frames: NDArray[np.float32] = sound.read(sound.frames, dtype="float32", always_2d=True)
    if len(frames) < sound.frames or _cut_short(sound):
        raise Unusable(param, f"{param} is cut short: its end is missing")
    if not np.isfinite(frames).all():
        raise Unusable(param, f"{param} has samples that aren't numbers")
    return frames


def _cut_short(sound: soundfile.SoundFile) -> bool:
    """A file whose end is missing is read as a shorter one; libsndfile's log has what its header had promised."""
    for line in sound.extra_info.splitlines():
        name, _, length = line.partition(":")
        promised, corrected, found = length.partition("(should be ")
        if name.strip() in _DECLARED and corrected and promised.strip().isdigit():
            promised_bytes, found_bytes = int(promised), int(found.strip(" )"))
            if found_bytes < promised_bytes < _UNKNOWN_LENGTH:
                return True
    return False


def _mono(frames: NDArray[np.float32], rate_hz: int, param: str) -> Recording:
    if not len(frames):
        raise Unusable(param, f"{param} has no sound in it")
    if frames.shape[1] == 1:
        return Recording(frames[:, 0].astype(np.float64), rate_hz)
    mix = frames.mean(axis=1, dtype=np.float64)
    left, right = _energy(frames[:, 0]), _energy(frames[:, 1])
    if max(left, right) > _MUCH_LOUDER * _energy(mix):
        louder = frames[:, int(right > left)].astype(np.float64)
        return Recording(louder, rate_hz, ("took the louder channel",))
    return Recording(mix, rate_hz, ("mixed two channels to one",))


def _energy(samples: "NDArray[np.float32] | NDArray[np.float64]") -> float:
    """In blocks: a minute at 192 kHz has 92 MB."""
    blocks = range(0, len(samples), _BLOCK_SAMPLES)
    return sum(float(np.square(samples[at : at + _BLOCK_SAMPLES], dtype=np.float64).sum()) for at in blocks)
