"""The plain client: the same conversation without an event loop of one's own."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from protocol.messages import Cancel, Done, HeardText
from saystream import CannotConnect, ClientError, Refused, SyncClient
from tests.fakes.server import MS_PER_CHAR, SAMPLES_PER_CHAR, FakeServer, hum, running


@pytest.fixture
def server() -> Iterator[FakeServer]:
    """In a thread of its own: the test's thread blocks."""
    fake = FakeServer()
    leave = threading.Event()
    ready = threading.Event()

    async def live() -> None:
        async with running(fake):
            ready.set()
            await asyncio.to_thread(leave.wait)

    thread = threading.Thread(target=asyncio.run, args=(live(),))
    thread.start()
    ready.wait(10)
    yield fake
    leave.set()
    thread.join(10)


def test_text_goes_in_and_audio_comes_out(server: FakeServer) -> None:
    with SyncClient(server.url) as client, client.utterance(voice="hum") as u:
        u.feed("Hello ")
        u.flush()
        u.feed("world.")
        u.end()
        assert b"".join(frame.pcm for frame in u) == hum(0, 12 * SAMPLES_PER_CHAR)
        assert u.wait_done().reason == "complete"
        assert u.started is not None
        assert client.hello.server == "fake"


def test_events_end_with_done(server: FakeServer) -> None:
    with SyncClient(server.url) as client, client.utterance() as u:
        u.feed("x")
        u.end()
        assert isinstance(list(u.events())[-1], Done)


def test_cancel_says_what_was_heard(server: FakeServer) -> None:
    with SyncClient(server.url) as client, client.utterance() as u:
        u.feed("Hello world")
        next(iter(u))
        u.played(10)
        assert u.cancel(3 * MS_PER_CHAR) == HeardText(end_char=3, exact=False, played_ms=30)


def test_replacing_takes_the_plain_utterance(server: FakeServer) -> None:
    with SyncClient(server.url) as client, client.utterance() as old:
        old.feed("Hello")
        with client.utterance(replaces=old) as new:
            new.end()
            new.wait_done()
        assert old.wait_done().reason == "replaced"


def test_leaving_unended_cancels(server: FakeServer) -> None:
    with SyncClient(server.url) as client:
        with client.utterance() as u:
            u.feed("Hello")
        assert u.wait_done().reason == "cancelled"
    assert server.received_of(Cancel) == [Cancel(id=u.id)]


def test_leaving_the_loop_early_lets_the_next_one_go_on(server: FakeServer) -> None:
    with SyncClient(server.url) as client, client.utterance() as u:
        u.feed("one")
        u.feed("two")
        u.end()
        frames = iter(u)
        next(frames)
        frames.close()  # type: ignore[attr-defined]
        assert [frame.at_sample for frame in u] == [3 * SAMPLES_PER_CHAR]


def test_errors_arrive_in_the_calling_thread(server: FakeServer, unused_port: int) -> None:
    with SyncClient(server.url) as client, client.utterance(voice="nobody") as u:
        with pytest.raises(Refused):
            u.wait_done()
        with pytest.raises(Refused):
            list(u)
    with pytest.raises(CannotConnect), SyncClient(f"ws://127.0.0.1:{unused_port}"):
        pass


def test_a_closed_client_says_so(server: FakeServer) -> None:
    client = SyncClient(server.url)
    with pytest.raises(ClientError, match="isn't connected"):
        client.utterance()
    with client:
        pass
    with pytest.raises(ClientError, match="isn't connected"):
        client.utterance()


def test_the_thread_is_gone_after_leaving(server: FakeServer) -> None:
    before = threading.active_count()
    with SyncClient(server.url):
        assert threading.active_count() > before
    assert threading.active_count() == before


def test_several_threads_speak_at_once(server: FakeServer) -> None:
    lengths: list[int] = []

    def speak(client: SyncClient, text: str) -> None:
        with client.utterance() as u:
            u.feed(text)
            u.end()
            lengths.append(sum(len(frame.pcm) for frame in u))

    with SyncClient(server.url) as client:
        threads = [threading.Thread(target=speak, args=(client, "x" * size)) for size in (1, 2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
    assert sorted(lengths) == [size * SAMPLES_PER_CHAR * 2 for size in (1, 2, 3)]
