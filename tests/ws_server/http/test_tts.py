"""One text, one answer: WAV or raw samples, and what goes wrong with them."""

import io
import json
from typing import Any

import anyio
import httpx
import numpy as np
import pytest
import soundfile

from protocol.messages import Audio, Done, End, Open, Text
from tests.ws_server.running import ADMIN_KEY, KEYS, SPEAK_KEY, Running, running

ONE, TWO, THREE = "This is the first sentence. ", "Here comes the second one. ", "And now the third of them. "
BOTH = pytest.mark.parametrize("path", ["/v1/tts", "/v1/tts/stream"])


async def ask(server: Running, path: str = "/v1/tts", **body: Any) -> httpx.Response:
    return await server.http.post(path, json=body, timeout=60)


async def over_the_socket(server: Running, text: str, **fields: Any) -> bytes:
    async with server.speak() as client:
        await client.receive()
        await client.send(Open(id="a", lead_ms=0, **fields), Text(id="a", text=text), End(id="a"))
        messages = await client.receive_until(Done)
        return b"".join(bytes(message.pcm) for message in messages if isinstance(message, Audio))


@pytest.mark.parametrize(
    ("form", "subtype"), [("s16le", "PCM_16"), ("f32le", "FLOAT"), ("mulaw", "ULAW"), ("alaw", "ALAW")]
)
async def test_the_file_is_a_wav_that_others_read(form: str, subtype: str) -> None:
    async with running() as server:
        answer = await ask(server, text=ONE + TWO, format=form)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "audio/wav")
        assert int(answer.headers["content-length"]) == len(answer.content)
        with soundfile.SoundFile(io.BytesIO(answer.content)) as file:
            assert (file.subtype, file.channels) == (subtype, 1)
            assert file.samplerate == int(answer.headers["x-sample-rate"])
            samples = file.read()
        # 60 ms for each character and each gap after a word; both sentences have 23 letters and marks, 5 words
        letters = sum(len(word) for word in (ONE + TWO).split())
        words = len((ONE + TWO).split())
        assert len(samples) / file.samplerate == pytest.approx((letters + words) * 0.06, abs=0.8)


@BOTH
async def test_the_samples_are_those_of_the_socket(path: str) -> None:
    async with running() as server:
        answer = await ask(server, path, text=ONE + TWO, sample_rate_hz=44100)
        pcm = answer.content if path.endswith("stream") else answer.content[44:]
        assert pcm == await over_the_socket(server, ONE + TWO, sample_rate_hz=44100)


@BOTH
async def test_the_headers_say_what_it_is(path: str) -> None:
    async with running() as server:
        headers = (await ask(server, path, text=ONE, voice="a4", format="mulaw")).headers
        wanted = {
            "x-sample-rate": "8000",
            "x-audio-format": "mulaw",
            "x-channels": "1",
            "x-engine": "tone",
            "x-voice": "a4",
            "x-cache": "miss",
            "cache-control": "no-store",
        }
        assert {name: headers[name] for name in wanted} == wanted
        assert headers["content-type"] == ("audio/wav" if path == "/v1/tts" else "application/octet-stream")


@BOTH
async def test_what_was_said_before_is_said_to_be(path: str, tmp_path: Any) -> None:
    """fault 10"""
    async with running(cache=True, cache_dir=tmp_path) as server:
        first = await ask(server, path, text=ONE)
        await server.services.cache.settled()
        again = await ask(server, path, text=ONE)
        part = await ask(server, path, text=ONE + TWO)
        without = await ask(server, path, text=ONE, cache=False)
        words = [answer.headers["x-cache"] for answer in (first, again, part, without)]
        assert words == ["miss", "hit", "partial", "miss"]
        assert first.content == again.content == without.content


REFUSED: list[tuple[dict[str, Any], int, str, str]] = [
    ({}, 422, "bad_message", "text"),
    ({"text": None}, 422, "bad_message", "text"),
    ({"text": 3}, 422, "bad_message", "text"),
    ({"text": ""}, 422, "invalid_option", "text"),
    ({"text": " \n"}, 422, "invalid_option", "text"),
    ({"text": "..."}, 422, "invalid_option", "text"),
    ({"text": "\U0001f600"}, 422, "invalid_option", "text"),
    ({"text": "a" * 100_001}, 413, "text_too_long", "text"),
    ({"text": ONE, "volume": 3}, 422, "invalid_option", "volume"),
    ({"text": ONE, "id": "x"}, 422, "invalid_option", "id"),
    ({"text": ONE, "voice": "nobody"}, 404, "unknown_voice", "voice"),
    ({"text": ONE, "voice": 3}, 422, "bad_message", "voice"),
    ({"text": ONE, "engine": "none"}, 404, "unknown_engine", "engine"),
    ({"text": ONE, "language": "tlh"}, 422, "unsupported_language", "language"),
    ({"text": ONE, "format": "mp3"}, 422, "unsupported_format", "format"),
    ({"text": ONE, "sample_rate_hz": 12345}, 422, "unsupported_format", "sample_rate_hz"),
    ({"text": ONE, "speed": 9}, 422, "invalid_option", "speed"),
    ({"text": ONE, "speed": "fast"}, 422, "bad_message", "speed"),
    ({"text": ONE, "cache": 1}, 422, "bad_message", "cache"),
    ({"text": ONE, "options": {"loud": 1}}, 422, "invalid_option", "options.loud"),
    ({"text": ONE, "options": {"at_step": -1}}, 422, "invalid_option", "options.at_step"),
    ({"text": ONE, "max_chars_per_gen": -1}, 422, "invalid_option", "max_chars_per_gen"),
    ({"text": ONE, "max_sentences_per_gen": 1.5}, 422, "bad_message", "max_sentences_per_gen"),
    ({"text": ONE, "max_sentences_per_gen": True}, 422, "bad_message", "max_sentences_per_gen"),
]


@BOTH
async def test_what_cannot_be_served_says_which_field_and_why(path: str) -> None:
    """S13, fault 17, fault 19"""
    async with running() as server:
        for body, *wanted in REFUSED:
            answer = await ask(server, path, **body)
            error = answer.json()["error"]
            assert [answer.status_code, error["code"], error["param"]] == wanted, body
            assert error["message"]
            assert "x-sample-rate" not in answer.headers
            assert server.services.dispatcher.open_listeners == 0


@BOTH
async def test_what_is_no_json_object_is_refused(path: str) -> None:
    bodies = [b"", b"{", b"[]", b"3", b'"text"', b"\xff\xfe", b'{"text": "a", "speed": NaN}', b'{"a":' * 5000]
    async with running() as server:
        for body in bodies:
            answer = await server.http.post(path, content=body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_message"), body[:20]


@BOTH
async def test_a_body_beyond_the_limit_is_refused(path: str) -> None:
    async with running(message_bytes=4096) as server:
        answer = await ask(server, path, text="a" * 5000)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "message_too_long")


async def test_letters_of_another_script_are_counted_and_alone_are_an_error() -> None:
    async with running(engine="hibari", engines={}) as server:
        mixed = await ask(server, text="Hello there, my dear friends: 你好世界。")
        assert (mixed.status_code, mixed.headers["x-unspoken-chars"]) == (200, "4")
        alone = await ask(server, text="你好世界。")
        assert (alone.status_code, alone.json()["error"]["code"]) == (422, "unsupported_language")


async def test_half_a_character_is_replaced_not_an_error() -> None:
    async with running() as server:
        answer = await server.http.post("/v1/tts", content=b'{"text": "Hello \\ud83d there."}')
        assert answer.status_code == 200


def lengths(pcm: bytes) -> int:
    return len(np.frombuffer(pcm, "<i2"))


@pytest.mark.parametrize(
    ("caps", "segments"),
    [
        ({}, 3),
        ({"max_sentences_per_gen": 1}, 3),
        ({"max_chars_per_gen": 15}, None),
        ({"max_chars_per_gen": 0, "max_sentences_per_gen": 0}, 3),
    ],
)
async def test_the_caps_of_a_generation_can_be_set(
    caps: dict[str, Any], segments: int | None, tmp_path: Any
) -> None:
    """S15"""
    async with running(cache=True, cache_dir=tmp_path) as server:
        answer = await ask(server, text=ONE + TWO + THREE, **caps)
        assert answer.status_code == 200
        await server.services.cache.settled()
        made = server.services.cache.counters.stored
        assert made == segments if segments is not None else made > 5


async def test_without_a_cap_a_long_sentence_is_made_in_one_go(tmp_path: Any) -> None:
    """S15"""
    sentence = "word " * 150 + "end."
    async with running(cache=True, cache_dir=tmp_path) as server:
        cache = server.services.cache
        assert (await ask(server, text=sentence)).status_code == 200
        await cache.settled()
        assert cache.counters.stored > 1
        before = cache.counters.stored
        assert (await ask(server, text=sentence, max_chars_per_gen=0)).status_code == 200
        await cache.settled()
        assert cache.counters.stored == before + 1


@BOTH
async def test_a_key_is_needed_where_there_are_keys_and_any_will_do(path: str) -> None:
    async with running(keys=KEYS) as server:
        assert (await ask(server, path, text=ONE)).status_code == 401
        for key in (SPEAK_KEY, ADMIN_KEY):
            headers = {"authorization": f"Bearer {key}"}
            assert (await server.http.post(path, json={"text": ONE}, headers=headers)).status_code == 200


@BOTH
async def test_a_strange_page_makes_nobody_speak(path: str) -> None:
    async with running() as server:
        answer = await server.http.post(path, json={"text": ONE}, headers={"origin": "https://evil.example"})
        assert answer.status_code == 403
        assert server.services.dispatcher.open_listeners == 0


@BOTH
async def test_a_draining_server_sends_elsewhere(path: str) -> None:
    async with running(drain_s=30) as server, server.speak() as client:
        await client.receive()
        await client.send(Open(id="a"), Text(id="a", text="and so on"))
        await client.send(Open(id="b"))
        server.services.drain()
        answer = await ask(server, path, text=ONE)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "shutting_down")
        assert int(answer.headers["retry-after"]) >= 1


SLOW = {"tone": {"cost": 0.5, "step_ms": 100}}


@BOTH
async def test_a_full_server_says_when_to_come_again(path: str) -> None:
    """S7, fault 6, fault 23"""
    async with running(engines=SLOW, max_streams=1, queue=0) as server, server.speak() as client:
        await client.receive()
        await client.send(Open(id="a", lead_ms=30_000), Text(id="a", text=ONE * 20), End(id="a"))
        await client.receive_until(Audio)
        answer = await ask(server, path, text=ONE)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (429, "busy")
        assert error["retry_after_ms"] > 0
        assert int(answer.headers["retry-after"]) >= error["retry_after_ms"] / 1000


@BOTH
async def test_a_hit_is_served_by_a_full_server(path: str, tmp_path: Any) -> None:
    """S7"""
    async with running(engines=SLOW, max_streams=1, queue=0, cache=True, cache_dir=tmp_path) as server:
        assert (await ask(server, path, text=TWO)).status_code == 200
        await server.services.cache.settled()
        async with server.speak() as client:
            await client.receive()
            await client.send(Open(id="a", lead_ms=30_000), Text(id="a", text=ONE * 20), End(id="a"))
            await client.receive_until(Audio)
            answer = await ask(server, path, text=TWO)
            assert (answer.status_code, answer.headers["x-cache"]) == (200, "hit")


async def nothing_left(server: Running) -> None:
    dispatcher = server.services.dispatcher
    with anyio.fail_after(20):
        while (  # noqa: ASYNC110 - what it waits for tells nobody
            dispatcher.in_flight
            or dispatcher.open_listeners
            or dispatcher.open_streams
            or len(server.services.sessions)
        ):
            await anyio.sleep(0.005)


@BOTH
async def test_a_client_that_leaves_stops_the_work(path: str) -> None:
    """fault 1, fault 3"""
    async with running(engines=SLOW) as server:
        with anyio.move_on_after(0.5):
            await ask(server, path, text=ONE * 200)
        await nothing_left(server)


async def test_a_client_that_leaves_in_the_middle_of_the_samples_stops_the_work() -> None:
    async with running(engines=SLOW) as server:
        async with server.http.stream("POST", "/v1/tts/stream", json={"text": ONE * 200}) as answer:
            async for _ in answer.aiter_raw():
                break
        await nothing_left(server)


async def test_a_reader_that_stops_holds_the_engine_and_not_the_memory() -> None:
    async with running(engines={"tone": {"step_ms": 100, "sample_rate_hz": 48000}}) as server:
        body = json.dumps({"text": ONE * 500, "format": "f32le"}).encode()
        head = (
            f"POST /v1/tts/stream HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        )
        async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
            await stream.send(head + body)
            await stream.receive(100)
            made: list[float] = []
            with anyio.fail_after(20):
                while len(made) < 2 or made[-1] != made[-2]:
                    await anyio.sleep(0.3)
                    listeners = server.services.dispatcher._pools["cpu"]._roster.audience.listeners.values()
                    made.append(max((one.entry.made_s for one in listeners), default=0.0))
            # The lead is 30 s, and it is less than a thirtieth of the text.
            assert 0 < made[-1] < 60
        await nothing_left(server)


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        ("raise", 500, "engine_failed"),
        ("raise_at_start", 500, "engine_failed"),
        ("nan", 500, "engine_failed"),
    ],
)
@BOTH
async def test_an_engine_that_fails_before_the_first_sample_is_an_error(
    path: str, fault: str, status: int, code: str
) -> None:
    """fault 20"""
    async with running(engines={"tone": {"faults": True}}) as server:
        answer = await ask(server, path, text=ONE, options={"fault": fault})
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
        await nothing_left(server)


async def test_a_failure_in_mid_stream_breaks_the_answer_off() -> None:
    """fault 24"""
    async with running(engines={"tone": {"faults": True, "step_ms": 100, "cost": 0.3}}) as server:
        body = {"text": ONE, "options": {"fault": "raise", "at_step": 5}}
        async with server.http.stream("POST", "/v1/tts/stream", json=body) as answer:
            assert answer.status_code == 200
            with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
                await answer.aread()
        await nothing_left(server)


async def test_a_failure_in_mid_file_is_an_error_and_no_file() -> None:
    """fault 24"""
    async with running(engines={"tone": {"faults": True, "step_ms": 100}}) as server:
        answer = await ask(server, text=ONE, options={"fault": "raise", "at_step": 5})
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "engine_failed")


async def test_what_takes_too_long_is_stopped_before_it_is_said() -> None:
    """fault 7; fault 8: the limit is for the whole, each step is quick"""
    async with running(engines=SLOW, tts_s=0.3) as server:
        answer = await ask(server, text=ONE * 200)
        assert (answer.status_code, answer.json()["error"]["code"]) == (504, "timeout")
        assert server.services.dispatcher.open_listeners <= 1
        assert len(server.services.sessions) == 0
        await nothing_left(server)


async def test_a_stalled_engine_is_unavailable_not_a_gateways_time_out() -> None:
    async with running(engines={"tone": {"faults": True}}, step_deadline_s=0.3) as server:
        answer = await ask(server, text=ONE, options={"fault": "stall", "stall_s": 2})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "engine_stalled")
        assert int(answer.headers["retry-after"]) >= 1


@BOTH
async def test_four_at_once_are_all_served(path: str) -> None:
    async with running() as server:
        answers: list[httpx.Response] = []

        async def one(text: str) -> None:
            answers.append(await ask(server, path, text=text))

        async with anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(one, f"This is the text of number {number}. " * 10)
        assert [answer.status_code for answer in answers] == [200] * 4
        await nothing_left(server)


async def test_a_long_text_waits_in_a_file_not_in_memory() -> None:
    async with running() as server:
        answer = await ask(server, text=ONE * 60, format="f32le", sample_rate_hz=48000)
        assert len(answer.content) > 8 << 20
        samples, rate_hz = soundfile.read(io.BytesIO(answer.content))
        assert rate_hz == 48000
        assert len(samples) * 4 == len(answer.content) - (len(answer.content) - len(samples) * 4)
        assert np.abs(samples[-48000:]).max() > 0.1


async def test_a_page_of_a_listed_origin_may_read_the_headers() -> None:
    async with running(origins=("https://app.example.com",)) as server:
        origin = {"origin": "https://app.example.com"}
        answer = await server.http.post("/v1/tts", json={"text": ONE}, headers=origin)
        readable = answer.headers["access-control-expose-headers"].lower().split(", ")
        sent = {name for name in answer.headers if name.startswith("x-")} - {"x-content-type-options"}
        assert sent <= set(readable)


async def test_health_counts_what_is_kept_and_found(tmp_path: Any) -> None:
    async with running(cache=True, cache_dir=tmp_path) as server:
        for _ in range(3):
            await ask(server, text=ONE)
            await server.services.cache.settled()
        health = (await server.http.get("/health")).json()["cache"]
        assert (health["entries"], health["hits"], health["misses"]) == (1, 2, 1)
        assert health["bytes"] == sum(path.stat().st_size for path in tmp_path.rglob("*.clip"))
