"""Many at once on one device, over real sockets."""

from collections.abc import Iterator

import anyio
import pytest

from protocol.messages import Done
from saystream import Client
from tests.serving import Server, serving
from tests.speak_live.sentences import SENTENCES

LISTENERS = 8
TOKENS_PER_S = 30


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving("--max-streams", str(LISTENERS)) as running:
        yield running


async def listen(server: Server, number: int, ends: list[Done]) -> None:
    """As an assistant's back end does: tokens at the pace of a model, five seconds of speech and more."""
    async with Client(server.ws_url) as client, client.utterance() as utterance:
        async with anyio.create_task_group() as tasks:

            async def feed() -> None:
                for sentence in SENTENCES[number : number + 3]:
                    for word in sentence.split(" "):
                        await utterance.feed(word + " ")
                        await anyio.sleep(1 / TOKENS_PER_S)
                await utterance.end()

            tasks.start_soon(feed)
            async for frame in utterance:
                assert frame.pcm
        ends.append(await utterance.done)


async def test_eight_listeners_hear_everything_without_a_gap(server: Server) -> None:
    ends: list[Done] = []
    async with anyio.create_task_group() as tasks:
        for number in range(LISTENERS):
            tasks.start_soon(listen, server, number, ends)
    assert len(ends) == LISTENERS
    for done in ends:
        assert done.reason == "complete"
        assert done.stats.audio_ms > 5000
        assert done.stats.gaps == 0
        assert done.stats.queue_ms == 0
