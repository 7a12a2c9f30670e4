import numpy as np

from protocol import messages as wire
from ws_server.audio.framer import Framer
from ws_server.heard import SpokenSegment
from ws_server.outgoing import FlushMark, Outgoing, Piece, SegmentStart, WordTimes

RATE_HZ = 8000


def outgoing(slice_samples: int = 100_000) -> Outgoing:
    framer = Framer(engine_rate_hz=RATE_HZ, output_rate_hz=RATE_HZ, format="s16le", frame_ms=None)
    return Outgoing("a", framer, slice_samples)


def spoken(start_char: int, end_char: int) -> SpokenSegment:
    return SpokenSegment(start_char, end_char, text_s=0, cut_s=0)


def piece(samples: int, *, last: bool = True) -> Piece:
    return Piece(np.zeros(samples, np.float32), last)


def take_all(queue: Outgoing) -> list[wire.ServerMessage]:
    messages: list[wire.ServerMessage] = []
    while True:
        message = queue.control()
        if message is None and queue.has_audio:
            message = queue.audio()
        if message is None:
            return messages
        messages.append(message)


def test_positions_are_those_of_the_frames_before() -> None:
    queue = outgoing()
    first, second = spoken(0, 6), spoken(7, 11)
    queue.put(SegmentStart(0, first, 6))
    queue.put(WordTimes(first, [(0, 5, 0, 900)]))
    queue.put(piece(1000))
    queue.put(FlushMark("m"))
    queue.put(SegmentStart(1, second, 11))
    queue.put(WordTimes(second, [(7, 10, 100, 400)]))
    queue.put(piece(500))
    messages = take_all(queue)
    kinds = [type(message).__name__ for message in messages]
    assert kinds[:3] == ["Segment", "Words", "Audio"]
    flushed = next(message for message in messages if isinstance(message, wire.Flushed))
    assert (flushed.mark, flushed.at_sample) == ("m", 1000)
    segments = [message.at_sample for message in messages if isinstance(message, wire.Segment)]
    assert segments == [0, 1000]
    words = [message.words for message in messages if isinstance(message, wire.Words)]
    assert words == [[(0, 5, 0, 900)], [(7, 10, 1100, 1400)]]


def test_frames_have_no_gaps_in_seq_or_position() -> None:
    queue = outgoing()
    for _ in range(3):
        queue.put(piece(1234))
    frames = [message for message in take_all(queue) if isinstance(message, wire.Audio)]
    assert [frame.seq for frame in frames] == list(range(len(frames)))
    position = 0
    for frame in frames:
        assert frame.at_sample == position
        position += len(frame.pcm) // 2
    assert position == queue.taken_samples == 3 * 1234


def test_a_segment_announced_again_keeps_its_place() -> None:
    queue = outgoing()
    one = spoken(0, 20)
    queue.put(SegmentStart(0, one, 6))
    queue.put(piece(1000, last=False))
    queue.put(SegmentStart(0, one, 20))
    queue.put(piece(1000))
    segments = [message for message in take_all(queue) if isinstance(message, wire.Segment)]
    assert [(message.end_char, message.at_sample) for message in segments] == [(6, 0), (20, 0)]


def test_a_long_chunk_is_pushed_in_slices_and_comes_out_whole() -> None:
    queue = outgoing(slice_samples=77)
    samples = np.linspace(-1, 1, 1000, dtype=np.float32)
    queue.put(Piece(samples, last=True))
    frames = [message for message in take_all(queue) if isinstance(message, wire.Audio)]
    whole = np.frombuffer(b"".join(frame.pcm for frame in frames), "<i2")
    assert len(whole) == 1000
    assert np.array_equal(whole, np.sort(whole))


def test_the_newest_word_about_waiting_replaces_an_unsent_one() -> None:
    queue = outgoing()
    queue.put_queued(wire.Queued(id="a", reason="busy", position=3))
    queue.put_queued(wire.Queued(id="a", reason="busy", position=2))
    assert take_all(queue) == [wire.Queued(id="a", reason="busy", position=2)]


def test_what_is_dropped_is_not_counted() -> None:
    queue = outgoing()
    queue.put(piece(1000))
    assert queue.control() is None
    assert len(queue.audio().pcm) // 2 == 160  # the first frame: 20 ms
    queue.drop_all()
    assert not queue.has_audio
    assert queue.taken_samples == 160
