"""What users of such servers have heard go wrong, by name, each with the right sound."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from protocol.messages import Audio, End, Open, Segment, Text
from tests.ws_server.conversing import RATE_HZ, SENTENCE, SENTENCE_SAMPLES, serving

Sound = np.ndarray[tuple[int], np.dtype[np.int16]]


async def spoken(
    text: str, *, step_ms: float | None = None, **fields: Any
) -> tuple[list[Audio], list[Segment]]:
    engines = {"tone": {} if step_ms is None else {"step_ms": step_ms}}
    async with serving(engines=engines) as server, server.connect() as talk:
        talk.say(Open(id="a", lead_ms=0.0, **{"voice": "a4", **fields}), Text(id="a", text=text), End(id="a"))
        assert (await talk.done()).reason == "complete"
        return talk.heard(Audio), talk.heard(Segment)


def samples(frames: list[Audio]) -> Sound:
    return np.frombuffer(b"".join(frame.pcm for frame in frames), "<i2")


def loudest_hz(sound: Sound, rate_hz: int) -> float:
    spectrum = np.abs(np.fft.rfft(sound.astype(float)))
    return float(np.argmax(spectrum)) * rate_hz / len(sound)


async def test_a1_what_comes_is_samples_and_nothing_else() -> None:
    frames, _ = await spoken(f"{SENTENCE} {SENTENCE}", step_ms=100)
    data = b"".join(frame.pcm for frame in frames)
    assert len(data) == 2 * 2 * SENTENCE_SAMPLES
    for header in (b"RIFF", b"WAVE", b"OggS", b"ID3", b"fLaC"):
        assert header not in data


async def test_a2_the_last_word_is_there_to_its_end() -> None:
    frames, segments = await spoken("One two three four five", step_ms=70)
    assert segments[-1].end_char == len("One two three four five")
    # "five" is 240 ms of tone and 60 ms of silence at the very end.
    last = samples(frames)[-300 * 24 : -60 * 24]
    assert loudest_hz(last, RATE_HZ) == pytest.approx(440, abs=10)
    assert np.abs(last).max() > 8000


async def test_a3_seconds_of_silence_at_the_end_are_a_natural_pause() -> None:
    async with serving() as server, server.connect() as talk:
        talk.say(
            Open(id="a", lead_ms=0.0, options={"fault": "silent_tail"}),
            Text(id="a", text=SENTENCE),
            End(id="a"),
        )
        done = await talk.done()
        assert done.reason == "complete"
        assert SENTENCE_SAMPLES - 60 * 24 <= done.samples < SENTENCE_SAMPLES + RATE_HZ


@pytest.mark.parametrize("step_ms", [80.0, 200.0])
async def test_a4_what_is_streamed_is_what_is_made_in_one_go(step_ms: float) -> None:
    text = f"{SENTENCE} Nine ten eleven."
    whole, _ = await spoken(text)
    streamed, _ = await spoken(text, step_ms=step_ms)
    assert np.array_equal(samples(whole), samples(streamed))


async def test_a4_segments_are_joined_in_silence() -> None:
    frames, segments = await spoken(f"{SENTENCE} {SENTENCE}")
    sound = samples(frames)
    join = segments[1].at_sample
    assert np.abs(sound[join - 24 : join + 2]).max() < 400


async def test_a6_the_voice_keeps_its_pitch_and_level_from_segment_to_segment() -> None:
    frames, segments = await spoken(f"{SENTENCE} {SENTENCE} {SENTENCE}")
    sound = samples(frames)
    edges = [segment.at_sample for segment in segments] + [len(sound)]
    parts = [sound[start:end] for start, end in pairwise(edges)]
    assert len(parts) == 3
    for part in parts:
        assert loudest_hz(part, RATE_HZ) == pytest.approx(440, abs=5)
        assert np.abs(part).max() == pytest.approx(np.abs(parts[0]).max(), rel=0.01)


@pytest.mark.parametrize(("form", "size"), [("s16le", 2), ("f32le", 4), ("mulaw", 1), ("alaw", 1)])
@pytest.mark.parametrize("frame_ms", [None, 10, 33])
async def test_a8_every_frame_holds_whole_samples(form: str, size: int, frame_ms: int | None) -> None:
    frames, _ = await spoken(SENTENCE, format=form, sample_rate_hz=22050, frame_ms=frame_ms, step_ms=70)
    assert all(len(frame.pcm) % size == 0 and 0 < len(frame.pcm) < 65_536 for frame in frames)
    at = 0
    for number, frame in enumerate(frames):
        assert (frame.seq, frame.at_sample) == (number, at)
        at += len(frame.pcm) // size
    assert at == pytest.approx(SENTENCE_SAMPLES * 22050 / 24000, abs=2)


@pytest.mark.parametrize("fault", ["runaway", "collapse"])
async def test_a10_a_runaway_or_a_collapse_is_bounded_and_an_error(fault: str) -> None:
    async with serving(engines={"tone": {"step_ms": 200}}) as server, server.connect() as talk:
        talk.say(
            Open(id="a", lead_ms=0.0, options={"fault": fault}), Text(id="a", text=SENTENCE), End(id="a")
        )
        assert (await talk.failed()).code == "engine_failed"
        # Two minutes of noise were on offer.
        assert talk.samples() < 30 * RATE_HZ
        # The session speaks on.
        talk.say(Open(id="b", lead_ms=0.0), Text(id="b", text=SENTENCE), End(id="b"))
        assert (await talk.done("b")).samples == SENTENCE_SAMPLES


async def test_a10_one_bad_take_of_an_engine_that_draws_lots_is_taken_again_and_nobody_hears_it() -> None:
    async with serving(engines={"tone": {"sampling": True}}) as server, server.connect() as talk:
        options = {"fault": "collapse", "only_seed": 7}
        talk.say(Open(id="a", lead_ms=0.0, seed=7, options=options), Text(id="a", text=SENTENCE), End(id="a"))
        done = await talk.done()
        assert (done.reason, done.samples) == ("complete", SENTENCE_SAMPLES)


async def test_a11_a_telephone_hears_the_same_pitch_without_clicks_between_frames() -> None:
    frames, _ = await spoken("A" * 60, format="s16le", sample_rate_hz=8000, frame_ms=20, step_ms=50)
    sound = samples(frames).astype(np.int32)
    tone = sound[800:24000]
    assert loudest_hz(tone.astype(np.int16), 8000) == pytest.approx(440, abs=2)
    # A sine of that pitch and level moves by at most this much from sample to sample; a click would be more.
    steepest = 2 * np.pi * 440 / 8000 * np.abs(tone).max()
    assert np.abs(np.diff(tone)).max() < 1.1 * steepest
