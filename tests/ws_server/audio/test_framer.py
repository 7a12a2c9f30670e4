import numpy as np
import pytest
import soxr
from hypothesis import given
from hypothesis import strategies as st

from engines.contract import Samples
from protocol.messages import Format
from ws_server.audio.framer import Framer

FORMATS: tuple[Format, ...] = ("s16le", "f32le", "mulaw", "alaw")
BYTES = {"s16le": 2, "f32le": 4, "mulaw": 1, "alaw": 1}
WIRE_FRAME_BYTES = 64 * 1024


def ramp(samples: int, start: int = 0) -> Samples:
    """Every sample differs from its neighbours by a step of 16-bit PCM, so a slip by one shows."""
    return ((np.arange(start, start + samples) % 60000 - 30000) / 32767).astype(np.float32)


def drain(framer: Framer) -> list[bytes]:
    frames = []
    while (frame := framer.take()) is not None:
        frames.append(frame)
    return frames


def s16(frames: list[bytes]) -> list[int]:
    return [int(sample) for sample in np.frombuffer(b"".join(frames), dtype="<i2")]


def test_the_first_frame_is_20_ms_and_later_ones_up_to_100_ms() -> None:
    framer = Framer(engine_rate_hz=24000, output_rate_hz=24000, format="s16le", frame_ms=None)
    framer.push(ramp(24000 // 4), last_of_segment=False)
    assert [len(frame) // 2 for frame in drain(framer)] == [480, 2400, 2400, 720]


def test_without_frame_ms_nothing_is_held_back_after_the_first_frame() -> None:
    framer = Framer(engine_rate_hz=24000, output_rate_hz=24000, format="s16le", frame_ms=None)
    framer.push(ramp(480), last_of_segment=False)
    drain(framer)
    framer.push(ramp(7), last_of_segment=False)
    assert [len(frame) // 2 for frame in drain(framer)] == [7]


def test_the_first_frame_waits_until_20_ms_are_there_or_its_segment_ends() -> None:
    framer = Framer(engine_rate_hz=8000, output_rate_hz=8000, format="s16le", frame_ms=None)
    framer.push(ramp(100), last_of_segment=False)
    assert framer.take() is None
    framer.push(ramp(10), last_of_segment=True)
    assert [len(frame) // 2 for frame in drain(framer)] == [110]


@pytest.mark.parametrize(("frame_ms", "samples"), [(10, 80), (20, 160), (30, 240), (200, 1600)])
def test_frame_ms_is_kept_to_the_sample_and_only_a_segments_last_frame_is_shorter(
    frame_ms: int, samples: int
) -> None:
    framer = Framer(engine_rate_hz=8000, output_rate_hz=8000, format="mulaw", frame_ms=frame_ms)
    first = min(160, samples)
    framer.push(ramp(first + 2 * samples + 5), last_of_segment=False)
    assert [len(frame) for frame in drain(framer)] == [first, samples, samples]
    framer.push(ramp(2), last_of_segment=True)
    assert [len(frame) for frame in drain(framer)] == [7]
    framer.push(ramp(samples), last_of_segment=True)
    assert [len(frame) for frame in drain(framer)] == [samples]


def test_no_frame_spans_two_segments() -> None:
    framer = Framer(engine_rate_hz=24000, output_rate_hz=24000, format="s16le", frame_ms=None)
    framer.push(ramp(1000), last_of_segment=True)
    framer.push(ramp(1000), last_of_segment=True)
    assert [len(frame) // 2 for frame in drain(framer)] == [480, 520, 1000]


def test_an_empty_segment_makes_no_frame() -> None:
    framer = Framer(engine_rate_hz=24000, output_rate_hz=8000, format="s16le", frame_ms=20)
    framer.push(ramp(0), last_of_segment=True)
    assert framer.take() is None
    framer.push(ramp(24), last_of_segment=True)
    assert [len(frame) // 2 for frame in drain(framer)] == [8]


def test_positions_count_output_samples() -> None:
    framer = Framer(engine_rate_hz=24000, output_rate_hz=8000, format="f32le", frame_ms=None)
    framer.push(ramp(24000), last_of_segment=True)
    assert (framer.pushed_samples, framer.position_samples, framer.ready_samples) == (8000, 0, 8000)
    framer.take()
    assert (framer.pushed_samples, framer.position_samples, framer.ready_samples) == (8000, 160, 7840)
    assert framer.bytes_per_sample == 4


@pytest.mark.parametrize("audio_format", FORMATS)
@pytest.mark.parametrize("rate_hz", [8000, 16000, 22050, 24000, 44100, 48000])
@pytest.mark.parametrize("frame_ms", [None, 10, 11, 200])
def test_every_frame_holds_whole_samples_and_fits_the_wire(
    audio_format: Format, rate_hz: int, frame_ms: int | None
) -> None:
    framer = Framer(engine_rate_hz=24000, output_rate_hz=rate_hz, format=audio_format, frame_ms=frame_ms)
    framer.push(ramp(24000), last_of_segment=True)
    frames = drain(framer)
    assert all(len(frame) % BYTES[audio_format] == 0 for frame in frames)
    # Base64 in a JSON object is the longest form that a frame takes on the wire.
    assert max(map(len, frames)) * 4 / 3 + 200 < WIRE_FRAME_BYTES
    assert sum(map(len, frames)) == rate_hz * BYTES[audio_format]


chunks = st.lists(st.tuples(st.integers(0, 3000), st.booleans(), st.booleans()), max_size=30)


@given(chunks, st.sampled_from([None, 10, 20, 37, 200]))
def test_joined_frames_are_the_whole_whatever_the_chunks_and_the_moments_of_taking(
    pushes: list[tuple[int, bool, bool]], frame_ms: int | None
) -> None:
    framer = Framer(engine_rate_hz=16000, output_rate_hz=16000, format="s16le", frame_ms=frame_ms)
    frames: list[bytes] = []
    total = 0
    for samples, last, drains in pushes:
        framer.push(ramp(samples, total), last)
        total += samples
        if drains:
            frames += drain(framer)
    framer.push(ramp(0), last_of_segment=True)
    frames += drain(framer)
    assert s16(frames) == [n % 60000 - 30000 for n in range(total)]
    assert framer.position_samples == framer.pushed_samples == total


@given(
    st.lists(st.lists(st.integers(0, 2000), min_size=1, max_size=8), min_size=1, max_size=4),
    st.sampled_from([(24000, 8000), (24000, 44100), (44100, 16000), (22050, 48000)]),
)
def test_each_segment_is_resampled_as_if_in_one_piece(
    segments: list[list[int]], rates: tuple[int, int]
) -> None:
    framer = Framer(engine_rate_hz=rates[0], output_rate_hz=rates[1], format="f32le", frame_ms=20)
    frames: list[bytes] = []
    expected = []
    random = np.random.default_rng(7)
    for lengths in segments:
        whole = random.uniform(-0.5, 0.5, sum(lengths)).astype(np.float32)
        expected.append(soxr.resample(whole, *rates) if len(whole) else whole)
        for index, end in enumerate(np.cumsum(lengths)):
            framer.push(whole[end - lengths[index] : end], last_of_segment=index == len(lengths) - 1)
            frames += drain(framer)
    heard = np.frombuffer(b"".join(frames), dtype="<f4")
    np.testing.assert_array_equal(heard, np.concatenate(expected))


@given(st.lists(st.integers(1, 4000), min_size=1, max_size=12))
def test_with_frame_ms_the_frames_dont_depend_on_the_chunks(lengths: list[int]) -> None:
    whole = ramp(sum(lengths))
    one = Framer(engine_rate_hz=24000, output_rate_hz=24000, format="s16le", frame_ms=20)
    one.push(whole, last_of_segment=True)
    many = Framer(engine_rate_hz=24000, output_rate_hz=24000, format="s16le", frame_ms=20)
    frames: list[bytes] = []
    for index, end in enumerate(np.cumsum(lengths)):
        many.push(whole[end - lengths[index] : end], last_of_segment=index == len(lengths) - 1)
        frames += drain(many)
    assert frames == drain(one)
