import importlib
import sys
import warnings

import numpy as np
import pytest
from numpy.typing import NDArray

from ws_server.audio.companding import Law, encode


def pcm(*values: int) -> NDArray[np.int16]:
    return np.array(values, dtype=np.int16)


def mulaw_levels() -> dict[int, int]:
    """G.711 table 2: each code's output value, on a 16-bit scale (the recommendation's is 14-bit)."""
    levels = {}
    for code in range(256):
        bits = ~code & 0xFF
        magnitude = (((bits & 15) * 2 + 33) << (bits >> 4 & 7)) - 33
        levels[code] = 4 * (-magnitude if bits & 128 else magnitude)
    return levels


def alaw_levels() -> dict[int, int]:
    """G.711 table 1: each code's output value, on a 16-bit scale (the recommendation's is 13-bit)."""
    levels = {}
    for code in range(256):
        bits = code ^ 0x55
        chord, step = bits >> 4 & 7, bits & 15
        magnitude = 2 * step + 1 if chord == 0 else (2 * step + 33) << (chord - 1)
        levels[code] = 8 * (magnitude if bits & 128 else -magnitude)
    return levels


LEVELS: dict[Law, dict[int, int]] = {"mulaw": mulaw_levels(), "alaw": alaw_levels()}


def test_published_values_of_mulaw() -> None:
    # Full scale, the first chord's ends and silence, as the recommendation lists them.
    assert encode(pcm(32124, 31100, 0, -32124), "mulaw") == b"\x80\x81\xff\x00"
    assert encode(pcm(32767, -32768), "mulaw") == b"\x80\x00"


def test_published_values_of_alaw() -> None:
    assert encode(pcm(32256, 31232, 8, -8, -32256), "alaw") == b"\xaa\xab\xd5\x55\x2a"
    assert encode(pcm(32767, -32768), "alaw") == b"\xaa\x2a"


@pytest.mark.parametrize("law", ["mulaw", "alaw"])
def test_each_level_is_coded_as_itself(law: Law) -> None:
    coded = encode(pcm(*LEVELS[law].values()), law)
    assert [LEVELS[law][code] for code in coded] == list(LEVELS[law].values())


@pytest.mark.parametrize("law", ["mulaw", "alaw"])
def test_every_sample_gets_one_of_the_two_levels_around_it(law: Law) -> None:
    samples = np.arange(-32768, 32768, dtype=np.int16)
    levels = np.array(sorted(set(LEVELS[law].values())))
    heard = np.array([LEVELS[law][code] for code in encode(samples, law)])
    above = np.clip(np.searchsorted(levels, samples, side="left"), 0, len(levels) - 1)
    below = np.clip(np.searchsorted(levels, samples, side="right") - 1, 0, len(levels) - 1)
    # At zero a sample of the lowest bits may take the level on the other side.
    assert np.all((heard == levels[above]) | (heard == levels[below]) | (np.abs(samples) < 16))


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="the standard library's audioop ended with 3.12")
@pytest.mark.parametrize(("law", "function"), [("mulaw", "lin2ulaw"), ("alaw", "lin2alaw")])
def test_python_s_own_coder_agrees_but_on_the_edge_between_two_levels(law: Law, function: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        audioop = importlib.import_module("audioop")
    samples = np.arange(-32768, 32768, dtype=np.int16)
    ours = np.frombuffer(encode(samples, law), np.uint8)
    theirs = np.frombuffer(getattr(audioop, function)(samples.tobytes(), 2), np.uint8)
    assert np.mean(ours != theirs) < 0.01
