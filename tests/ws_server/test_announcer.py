from dataclasses import replace

import numpy as np
import pytest

from engines.contract import Facts, Info, Word
from protocol import messages as wire
from residency.clock import PlayoutClock
from ws_server.announcer import Announcer
from ws_server.audio.framer import Framer
from ws_server.heard import Recording, SpokenSegment
from ws_server.outgoing import Outgoing
from ws_server.plan import Plan
from ws_server.text import SegmentRules
from ws_server.text.segment import TextSegment

RATE_HZ = 8000
FACTS = Facts(checkpoint="c", sample_rate_hz=RATE_HZ, exact_words=True)
INFO = Info(
    name="tone", version="1", extra=None, devices=frozenset({"cpu"}), languages={"en": "en"}, voices=()
)
PLAN = Plan(
    unit="tone",
    engine="tone",
    voice="low",
    language="en",
    facts=FACTS,
    info=INFO,
    scripts=None,
    options=None,
    seed=0,
    speed=1.0,
    format="s16le",
    sample_rate_hz=RATE_HZ,
    rules=SegmentRules(),
    total_chars=1000,
)
# The client wrote "*Hello* big world." and the stars aren't spoken.
TEXT = "*Hello* big world."
SPEAKABLE = "Hello big world."
SOURCE = (1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18)
SEGMENT = TextSegment(0, len(TEXT), SPEAKABLE, SOURCE, "sentence")


class Stage:
    def __init__(self, *, words: bool, facts: Facts = FACTS, output_rate_hz: int = RATE_HZ) -> None:
        plan = replace(PLAN, facts=facts, sample_rate_hz=output_rate_hz)
        framer = Framer(engine_rate_hz=RATE_HZ, output_rate_hz=output_rate_hz, format="s16le", frame_ms=None)
        self.outgoing = Outgoing("a", framer, slice_samples=RATE_HZ)
        recording = Recording(PlayoutClock(0.2), output_rate_hz, exact_words=facts.exact_words)
        self.announcer = Announcer(wire.Open(id="a", words=words), plan, self.outgoing, recording)
        self.spoken = SpokenSegment(SEGMENT.start_char, SEGMENT.end_char, text_s=0, cut_s=0)

    def chunk(self, samples: int, *words: Word, last: bool = False) -> None:
        audio = np.zeros(samples, np.float32)
        self.announcer.chunk(SEGMENT, self.spoken, audio, words, last=last, started_s=1.0)

    def messages(self) -> list[wire.ServerMessage]:
        """All but the audio."""
        found: list[wire.ServerMessage] = []
        while True:
            message = self.outgoing.control()
            if message is not None:
                found.append(message)
            elif self.outgoing.has_audio:
                self.outgoing.audio()
            else:
                return found


def test_started_comes_once_and_only_with_samples() -> None:
    stage = Stage(words=False)
    stage.chunk(0)
    assert stage.messages() == []
    assert not stage.announcer.started
    stage.chunk(800)
    stage.chunk(800, last=True)
    kinds = [type(message).__name__ for message in stage.messages()]
    assert kinds == ["Started", "Segment"]


def test_word_times_are_in_the_clients_text_and_on_the_utterances_clock() -> None:
    stage = Stage(words=True)
    stage.chunk(1600, (0, 5, 0, 500), (6, 9, 600, 900), (10, 15, 900, 1500), last=True)
    words = [message.words for message in stage.messages() if isinstance(message, wire.Words)]
    assert words == [[(1, 6, 0, 500), (8, 11, 600, 900), (12, 17, 900, 1500)]]


def test_word_times_follow_the_output_rate() -> None:
    stage = Stage(words=True, output_rate_hz=16000)
    stage.chunk(1600, (0, 5, 0, 500), (6, 9, 600, 900), (10, 15, 900, 1500), last=True)
    words = [message.words for message in stage.messages() if isinstance(message, wire.Words)]
    assert words[0][0] == (1, 6, 0, 1000)


def test_a_segment_grows_as_its_words_become_known() -> None:
    stage = Stage(words=True)
    stage.chunk(800, (0, 5, 0, 500))
    stage.chunk(800, (6, 9, 600, 900), (10, 15, 900, 1500), last=True)
    messages = stage.messages()
    kinds = [type(message).__name__ for message in messages]
    assert kinds == ["Started", "Segment", "Words", "Segment", "Words"]
    ends = [message.end_char for message in messages if isinstance(message, wire.Segment)]
    assert ends == [6, len(TEXT)]


def test_a_segment_is_announced_whole_to_who_wants_no_words() -> None:
    stage = Stage(words=False)
    stage.chunk(800, (0, 5, 0, 500))
    stage.chunk(800, (6, 9, 600, 900), last=True)
    ends = [message.end_char for message in stage.messages() if isinstance(message, wire.Segment)]
    assert ends == [len(TEXT)]


@pytest.mark.parametrize("exact", [True, False])
def test_started_says_whether_word_times_are_exact(exact: bool) -> None:
    stage = Stage(words=True, facts=replace(FACTS, exact_words=exact))
    stage.chunk(800, last=True)
    started = next(message for message in stage.messages() if isinstance(message, wire.Started))
    assert started.words == ("exact" if exact else "estimated")


def test_estimated_words_are_put_right_when_the_segments_length_is_known() -> None:
    stage = Stage(words=False, facts=replace(FACTS, exact_words=False))
    stage.chunk(800)
    stage.chunk(800, last=True)
    assert stage.spoken.samples == 1600
    # "Hello" is 5 of 16 characters: over after 500 of 1600 samples.
    assert stage.spoken.heard_until(499) == 0
    assert stage.spoken.heard_until(500) == 6
