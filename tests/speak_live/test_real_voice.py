"""The whole way: tokens into a real socket, a real neural voice out, a real recogniser at the end."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from protocol.messages import Audio, Done, Segment
from saystream import Client
from tests.listening import normalise, transcribe, word_errors
from tests.serving import Server, serving
from tests.speak_live.sentences import SENTENCES

pytestmark = [pytest.mark.real_voice, pytest.mark.timeout(300)]


@dataclass
class Spoken:
    pcm: bytes = b""
    segments: list[tuple[int, int, int, int]] = field(default_factory=list)
    done: Done | None = None

    @property
    def samples(self) -> NDArray[np.float32]:
        return np.frombuffer(self.pcm, "<i2").astype(np.float32) / np.float32(32768)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


async def speak(client: Client, increments: list[str], seed: int = 7) -> Spoken:
    """As fast as it is made, and without what depends on time: no waits, no forced cuts."""
    spoken = Spoken()
    async with client.utterance(lead_ms=0, wait_ms=60_000, seed=seed) as utterance:
        for increment in increments:
            await utterance.feed(increment)
        await utterance.end()
        async for message in utterance.events():
            match message:
                case Audio(pcm=pcm):
                    spoken.pcm += pcm
                case Segment():
                    spoken.segments.append(
                        (message.index, message.start_char, message.end_char, message.at_sample)
                    )
                case Done():
                    spoken.done = message
                case _:
                    pass
    return spoken


def small_increments(text: str, random_: random.Random) -> list[str]:
    increments = []
    while text:
        size = random_.choice((1, 1, 2, 3, 4, 5, 7, 11))
        increments.append(text[:size])
        text = text[size:]
    return increments


async def test_twenty_sentences_in_random_increments_are_understood(server: Server) -> None:
    errors = words = 0
    async with Client(server.ws_url) as client:
        for number, sentence in enumerate(SENTENCES):
            spoken = await speak(client, small_increments(sentence, random.Random(number)))
            assert spoken.done is not None
            assert spoken.done.reason == "complete"
            heard = transcribe(spoken.samples, 24000)
            errors += word_errors(sentence, heard)
            words += len(normalise(sentence).split())
            assert normalise(heard).split()[-1] == normalise(sentence).split()[-1], heard
    assert errors / words <= 0.05


async def test_increments_change_neither_segments_nor_a_single_sample(server: Server) -> None:
    text = " ".join(SENTENCES)
    async with Client(server.ws_url) as client:
        whole = await speak(client, [text])
        assert len(whole.segments) >= 10
        for number in range(3):
            pieces = await speak(client, small_increments(text, random.Random(number)))
            assert pieces.segments == whole.segments
            assert pieces.pcm == whole.pcm


async def test_another_seed_is_another_take_of_the_same_words(server: Server) -> None:
    async with Client(server.ws_url) as client:
        one = await speak(client, [SENTENCES[0]], seed=1)
        other = await speak(client, [SENTENCES[0]], seed=2)
        again = await speak(client, [SENTENCES[0]], seed=1)
    assert one.pcm == again.pcm
    assert one.pcm != other.pcm
    assert len(one.pcm) == len(other.pcm)
