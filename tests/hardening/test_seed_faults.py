"""The faults of the two systems that this one grew out of, by name: none of them is here."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import httpx
import numpy as np
import pytest

from protocol.messages import Audio, Cancel, Done, End, Error, Open, Queued, Segment, Text
from tests.ws_server.conversing import SENTENCE, SENTENCE_SAMPLES, Conversing, serving, until
from tests.ws_server.running import ADMIN_KEY, KEYS, SPEAK_KEY, Running, running

STEPS = {"tone": {"step_ms": 100}}
LONG = f"{SENTENCE} " * 10


def speak(talk: Conversing, id: str = "a", text: str = SENTENCE, **fields: Any) -> None:  # noqa: A002 - the wire's name
    talk.say(Open(id=id, **{"lead_ms": 0.0, **fields}), Text(id=id, text=text), End(id=id))


async def test_fault_1_a_disconnect_stops_the_generation() -> None:
    async with serving(engines=STEPS) as server:
        async with server.connect() as talk:
            speak(talk, text=LONG)
            await talk.one(Audio)
            server.gate.shut()
            await until(lambda: server.gate.held == 1)
            steps = server.gate.steps
        server.gate.open()
        await server.until_nothing_is_left()
        assert server.gate.steps == steps


async def test_fault_2_a_slot_isnt_free_while_the_device_still_works_for_it() -> None:
    async with serving(max_streams=1) as server, server.connect() as talk:
        server.gate.shut()
        speak(talk)
        await until(lambda: server.gate.held == 1)
        talk.say(Cancel(id="a"))
        await talk.done()
        assert server.services.dispatcher.in_flight == 1
        speak(talk, "b")
        await talk.one(Queued, id="b")
        server.gate.open()
        assert (await talk.done("b")).reason == "complete"


async def test_fault_3_a_slot_doesnt_leak_if_nobody_reads_or_the_load_is_cancelled() -> None:
    async with serving(loaded=False, max_streams=1, engines={"tone": {"load_s": 0.1}}) as server:
        async with server.connect() as talk:
            speak(talk)
            await talk.one(Queued)
        server.gate.open()
        await server.until_nothing_is_left()
        async with server.connect() as talk:
            talk.stop_reading()
            speak(talk, text=LONG)
            await until(lambda: server.services.dispatcher.in_flight == 1)
        await server.until_nothing_is_left()


async def test_fault_4_the_queue_is_bounded() -> None:
    async with serving(max_streams=1, queue=3) as server, server.connect() as talk:
        talk.say(Open(id="a"), Text(id="a", text=SENTENCE))
        await talk.one(Audio)
        for number in range(10):
            talk.say(Open(id=str(number)), Text(id=str(number), text="One."))
        await talk.some(Error, 7, code="busy")
        assert server.services.dispatcher.queued == 3


async def test_fault_5_the_second_caller_doesnt_wait_for_all_of_the_first() -> None:
    async with serving(engines=STEPS) as server, server.connect() as first, server.connect() as second:
        server.gate.shut()
        speak(first, text=LONG, lead_ms=30_000.0)
        await until(lambda: server.gate.held == 1)
        speak(second, lead_ms=30_000.0)
        server.gate.open()
        assert (await second.done()).samples == SENTENCE_SAMPLES
        assert not first.heard(Done)


async def test_fault_6_nothing_bypasses_admission() -> None:
    async with running(max_streams=1, queue=0) as server, server.speak() as client:
        await client.receive()
        await client.send(Open(id="a"), Text(id="a", text=SENTENCE))
        await client.receive_until(Audio)
        await client.send(
            Open(id="rendering", lead_ms=0.0), Text(id="rendering", text="One."), End(id="rendering")
        )
        *_, error, _ = await client.receive_until(Done)
        assert isinstance(error, Error)
        assert error.code == "busy"
        for path in ("/v1/tts", "/v1/tts/stream"):
            answer = await server.http.post(path, json={"text": "One."})
            assert (answer.status_code, answer.json()["error"]["code"]) == (429, "busy")
            assert int(answer.headers["retry-after"]) >= 1


async def test_fault_7_a_time_out_leaves_no_job_running() -> None:
    async with serving(max_streams=1, queue_wait_s=0.01) as server, server.connect() as talk:
        server.gate.shut()
        speak(talk)
        await until(lambda: server.gate.held == 1)
        steps = server.gate.steps
        speak(talk, "late")
        assert (await talk.failed("late")).code == "busy"
        server.gate.open()
        await talk.done()
        await server.until_nothing_is_left()
        assert server.gate.steps == steps


async def test_fault_8_an_engine_that_goes_on_in_good_time_for_ever_is_ended() -> None:
    async with serving(engines=STEPS) as server, server.connect() as talk:
        speak(talk, text="One two.", options={"fault": "runaway"})
        assert (await talk.failed()).code == "engine_failed"
        # Two minutes are 1200 steps.
        assert server.gate.steps < 200


async def test_fault_16_a_key_is_needed_and_its_role_counts() -> None:
    async with running(keys=KEYS) as server:
        http = server.http
        speak_key = {"authorization": f"Bearer {SPEAK_KEY}"}
        admin_key = {"authorization": f"Bearer {ADMIN_KEY}"}
        for path in ("/health", "/metrics"):
            assert (await http.get(path)).status_code == 401
            assert (await http.get(path, headers=speak_key)).status_code == 403
            assert (await http.get(path, headers=admin_key)).status_code == 200
        for method, path in (("POST", "/drain"), ("POST", "/v1/voices"), ("DELETE", "/v1/voices/x")):
            assert (await http.request(method, path)).status_code == 401, path
            assert (await http.request(method, path, headers=speak_key)).status_code == 403, path
        assert (await http.post("/v1/tts", json={"text": "One."})).status_code == 401
        assert (await http.get("/v1/speak")).status_code == 401


async def test_fault_17_an_engine_that_isnt_there_is_named_and_no_fault_of_the_server() -> None:
    async with serving() as server, server.connect() as talk:
        talk.say(Open(id="a", engine="nobody"))
        error = await talk.failed()
        assert (error.code, error.param, error.value) == ("unknown_engine", "engine", ["tone"])
    async with running() as running_server:
        answer = await running_server.http.post("/v1/tts", json={"text": "One.", "engine": "nobody"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown_engine")


async def test_fault_18_text_isnt_cut_at_every_full_stop_and_none_of_it_is_lost() -> None:
    text = 'He said: "It is 3.5 percent." Dr. Who agreed (really) 👩‍🚀 too.'
    async with serving() as server, server.connect() as talk:
        speak(talk, text=text)
        done = await talk.done()
        assert done.chars == len(text)
        edges = [(segment.start_char, segment.end_char) for segment in talk.heard(Segment)]
        pieces = [text[start:end] for start, end in edges]
        assert [piece for piece in pieces if piece.endswith(("3.", "Dr."))] == []
        assert pieces[0].endswith('."')
        between = "".join(text[a:b] for (_, a), (b, _) in pairwise(edges))
        assert between.strip() == ""


async def test_fault_19_empty_text_is_a_proper_end_and_no_empty_success_over_http() -> None:
    async with serving() as server, server.connect() as talk:
        speak(talk, text="")
        assert ((await talk.done()).reason, talk.samples()) == ("complete", 0)
    async with running() as running_server:
        for path in ("/v1/tts", "/v1/tts/stream"):
            for text in ("", " \n", "...", "👍"):
                answer = await running_server.http.post(path, json={"text": text})
                assert (answer.status_code, answer.json()["error"]["param"]) == (422, "text"), (path, text)


async def test_fault_20_nan_fails_and_samples_are_rounded_and_clamped() -> None:
    async with serving() as server, server.connect() as talk:
        speak(talk, options={"fault": "nan"})
        assert (await talk.failed()).code == "engine_failed"
        assert talk.samples() == 0
        speak(talk, "beyond", options={"fault": "beyond"})
        await talk.done("beyond")
        loud = np.frombuffer(b"".join(frame.pcm for frame in talk.heard(Audio, id="beyond")), "<i2")
        assert loud.max() == 32767
        assert np.abs(np.diff(loud.astype(np.int32))).max() < 40_000


async def test_fault_21_idleness_begins_when_all_has_been_heard() -> None:
    async with serving(utterance_idle_s=0.05) as server, server.connect() as talk:
        talk.say(Open(id="a", lead_ms=300.0, wait_ms=0.0), Text(id="a", text="One two three."))
        done = await talk.done()
        assert (done.reason, done.samples) == ("timeout", (3 + 3 + 6 + 3) * 60 * 24)


async def test_fault_22_a_load_that_fails_leaves_the_one_that_speaks_where_it_is() -> None:
    async with running(engine="hibari", engines={"tone": {"fails_to_load": True}}) as server:
        async with server.speak() as client:
            await client.receive()
            await client.send(Open(id="a", engine="tone"), Text(id="a", text="One."), End(id="a"))
            await client.receive_done()
        rows = {row["name"]: row for row in (await server.http.get("/v1/engines")).json()["engines"]}
        assert (rows["hibari"]["state"], rows["tone"]["state"]) == ("ready", "failed")
        assert "told to fail" in rows["tone"]["last_error"]


async def test_fault_23_when_to_come_back_follows_from_the_work_ahead() -> None:
    async def retry_after_ms(waiting: int) -> float:
        async with serving(max_streams=1, queue=waiting) as server, server.connect() as talk:
            talk.say(Open(id="a"), Text(id="a", text=SENTENCE))
            await talk.one(Audio)
            for number in range(waiting + 1):
                talk.say(Open(id=str(number)), Text(id=str(number), text="One."))
            error = await talk.one(Error, code="busy")
            assert error.retry_after_ms is not None
            return error.retry_after_ms

    few, many = await retry_after_ms(1), await retry_after_ms(8)
    assert 0 < few < many


async def test_fault_24_a_failure_in_the_middle_never_looks_like_success() -> None:
    fault = {"fault": "raise", "at_step": 5}
    async with running(engines={"tone": {"step_ms": 100, "faults": True, "cost": 0.5}}) as server:
        async with server.speak() as client:
            await client.receive()
            await client.send(Open(id="a", options=fault), Text(id="a", text=SENTENCE), End(id="a"))
            *_, error, done = await client.receive_until(Done)
            assert isinstance(error, Error)
            assert isinstance(done, Done)
            assert (error.code, done.reason) == ("engine_failed", "failed")
            assert done.samples > 0
        with pytest.raises(httpx.RemoteProtocolError):
            await server.http.post("/v1/tts/stream", json={"text": SENTENCE, "options": fault})
        answer = await server.http.post("/v1/tts", json={"text": SENTENCE, "options": fault})
        assert answer.status_code >= 500
        assert answer.json()["error"]["code"] == "engine_failed"


@asynccontextmanager
async def wedged() -> AsyncIterator[Running]:
    async with (
        running(engines={"tone": {"faults": True}}, step_deadline_s=0.2) as server,
        server.speak() as client,
    ):
        await client.receive()
        stall = {"fault": "stall", "stall_s": 2}
        await client.send(Open(id="a", options=stall), Text(id="a", text="One."), End(id="a"))
        await client.receive_done()
        yield server


async def test_fault_25_health_isnt_green_while_the_device_hangs() -> None:
    async with wedged() as server:
        assert (await server.http.get("/livez")).status_code == 503
        assert (await server.http.get("/readyz")).status_code == 503
        health = json.loads((await server.http.get("/health")).text)
        assert (health["status"], health["reason"]) == ("unready", "an engine step hasn't come back")
