"""What an engine can get wrong, done to it: never a wrap, never silence sold as success, nobody else touched."""

import numpy as np
import pytest

from protocol.messages import Audio, Done, End, Error, Flush, Flushed, Open, Started, Text
from tests.ws_server.conversing import SENTENCE, SENTENCE_SAMPLES, Conversing, serving
from tests.ws_server.running import running

STEPS = {"tone": {"step_ms": 100}}


def speak(talk: Conversing, id: str = "a", text: str = SENTENCE, **options: object) -> None:  # noqa: A002 - the wire's name
    talk.say(Open(id=id, options=options or None), Text(id=id, text=text), End(id=id))


def pcm(talk: Conversing, id: str = "a") -> "np.ndarray[tuple[int], np.dtype[np.int16]]":  # noqa: A002 - the wire's name
    return np.frombuffer(b"".join(frame.pcm for frame in talk.heard(Audio, id=id)), "<i2")


@pytest.mark.parametrize("fault", ["nan", "nothing", "collapse", "raise", "raise_at_start", "runaway"])
async def test_a_fault_is_an_error_and_other_utterances_go_on(fault: str) -> None:
    async with serving(engines=STEPS) as server, server.connect() as talk, server.connect() as other:
        speak(talk, fault=fault)
        speak(talk, "beside")
        speak(other)
        error = await talk.failed()
        assert (error.code, error.retryable) == ("engine_failed", True)
        assert (await talk.done("beside")).samples == SENTENCE_SAMPLES
        assert (await other.done()).samples == SENTENCE_SAMPLES
        await server.until_nothing_is_left()


@pytest.mark.parametrize("fault", ["nan", "raise"])
async def test_a_fault_in_the_middle_is_an_error_after_the_audio(fault: str) -> None:
    async with serving(engines=STEPS) as server, server.connect() as talk:
        # "One." is over in three steps, before the fault.
        talk.say(
            Open(id="a", options={"fault": fault, "at_step": 10}), Text(id="a", text="One. "), Flush(id="a")
        )
        await talk.one(Flushed)
        talk.say(Text(id="a", text=SENTENCE), End(id="a"))
        await talk.failed()
        done = talk.heard(Done)[0]
        assert 0 < done.samples < SENTENCE_SAMPLES
        kinds = [type(message) for message in talk.messages]
        assert kinds[-2:] == [Error, Done]
        assert kinds.index(Started) < kinds.index(Audio) < kinds.index(Error)


async def test_samples_beyond_one_are_clamped_and_never_wrap() -> None:
    async with serving() as server, server.connect() as talk:
        speak(talk, fault="beyond")
        assert (await talk.done()).reason == "complete"
        loud = pcm(talk).astype(np.int32)
        assert loud.max() == 32767
        assert loud.min() in {-32767, -32768}
        # A sine of at most 2 kHz at twice full scale moves by at most 2 * 2 * pi * 2000 / 24000 of it in a sample.
        assert np.abs(np.diff(loud)).max() < 2 * 2 * np.pi * 2000 / 24000 * 32768


async def test_a_step_that_doesnt_come_back_stalls_its_utterance_and_the_server_says_so() -> None:
    engines = {"tone": {"faults": True}}
    async with running(engines=engines, step_deadline_s=0.3) as server, server.speak() as client:
        await client.receive()
        await client.send(
            Open(id="a", options={"fault": "stall", "stall_s": 4}), Text(id="a", text="One."), End(id="a")
        )
        *_, error, done = await client.receive_until(Done)
        assert isinstance(error, Error)
        assert isinstance(done, Done)
        assert (error.code, done.reason) == ("engine_stalled", "failed")
        # As long as it hangs a supervisor should restart, a balancer look elsewhere, and nobody wait in vain.
        assert (await server.http.get("/livez")).status_code == 503
        assert (await server.http.get("/readyz")).json() == {"reason": "an engine step hasn't come back"}
        assert (await server.http.get("/health")).json()["status"] == "unready"
        await client.send(Open(id="b"), Text(id="b", text="One."), End(id="b"))
        *_, error, done = await client.receive_until(Done)
        assert isinstance(error, Error)
        assert error.code == "engine_stalled"
        # It came back after all.
        while (await server.http.get("/readyz")).status_code != 200:
            pass
        await client.send(Open(id="c"), Text(id="c", text="One."), End(id="c"))
        assert (await client.receive_done()).reason == "complete"


async def test_an_engine_slower_than_real_time_makes_gaps_that_are_called_by_their_name() -> None:
    async with running(engines={"tone": {"cost": 1.5, "step_ms": 300}}) as server, server.speak() as client:
        await client.receive()
        await client.send(Open(id="a"), Text(id="a", text=f"{SENTENCE} {SENTENCE}"), End(id="a"))
        done = await client.receive_done()
        assert done.reason == "complete"
        assert done.stats.gaps > 0
        metrics = (await server.http.get("/metrics")).text
        assert 'saystream_gaps_total{cause="overload"}' in metrics or 'cause="misestimate"' in metrics


async def test_a_load_that_fails_is_told_to_those_who_asked_and_the_default_speaks_on() -> None:
    async with running(engine="hibari", engines={"tone": {"fails_to_load": True}}) as server:
        async with server.speak() as client:
            await client.receive()
            await client.send(Open(id="a", engine="tone"), Text(id="a", text="One."), End(id="a"))
            *_, error, _ = await client.receive_until(Done)
            assert isinstance(error, Error)
            assert error.code == "engine_unavailable"
            await client.send(Open(id="b"), Text(id="b", text="One."), End(id="b"))
            assert (await client.receive_done()).reason == "complete"
        assert (await server.http.get("/readyz")).status_code == 200
