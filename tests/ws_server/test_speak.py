"""The socket end to end: handshake, refusals, messages, ends."""

import json as json_codec

import anyio
import anyio.lowlevel
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from protocol.messages import Audio, Bye, Done, End, Error, Hello, Open, Ping, Pong, Started, Text
from tests.ws_server.running import ADMIN_KEY, KEYS, SPEAK_KEY, running


@pytest.mark.parametrize("json", [False, True])
async def test_text_comes_back_as_audio_in_both_encodings(json: bool) -> None:
    async with running() as server, server.speak(json=json) as client:
        hello = await client.receive()
        assert isinstance(hello, Hello)
        assert (hello.protocol, hello.engine, hello.sample_rate_hz) == ("saystream.v1", "tone", 24000)
        await client.send(Open(id="a"), Text(id="a", text="Hello there."), End(id="a"))
        *before, done = await client.receive_until(Done)
        assert isinstance(done, Done)
        assert done.reason == "complete"
        assert isinstance(before[0], Started)
        pcm = b"".join(message.pcm for message in before if isinstance(message, Audio))
        assert len(pcm) == 2 * done.samples > 0


async def test_without_an_offer_the_answer_names_no_subprotocol_and_speaks_messagepack() -> None:
    async with running() as server, server.speak(subprotocols=None) as client:
        assert client.socket.subprotocol is None
        assert isinstance(await client.receive(), Hello)


async def test_the_first_known_subprotocol_of_the_offer_wins() -> None:
    offer = ["chat", "saystream.v1.json", "saystream.v1.msgpack"]
    async with running() as server, server.speak(json=True, subprotocols=offer) as client:
        assert client.socket.subprotocol == "saystream.v1.json"
        assert isinstance(await client.receive(), Hello)


async def test_compression_is_refused() -> None:
    async with running() as server, connect(server.url, compression="deflate") as socket:
        assert socket.response is not None
        assert "Sec-WebSocket-Extensions" not in socket.response.headers


async def refusal(url: str, **options: object) -> tuple[int, str, str | None]:
    with pytest.raises(InvalidStatus) as caught:
        async with connect(url, **options):  # type: ignore[arg-type]
            pass
    response = caught.value.response
    return (
        response.status_code,
        json_codec.loads(response.body)["error"]["code"],
        response.headers.get("Retry-After"),
    )


async def test_only_unknown_subprotocols_are_refused_before_the_upgrade() -> None:
    async with running() as server:
        assert await refusal(server.url, subprotocols=["chat"]) == (400, "bad_message", None)
        explained = await server.http.get("/v1/speak", headers={"sec-websocket-protocol": "chat"})
        assert explained.status_code == 400


async def test_a_page_from_elsewhere_is_refused_and_may_read_why() -> None:
    async with running() as server:
        origin = "https://evil.example"
        assert await refusal(server.url, origin=origin) == (403, "forbidden", None)
        explained = await server.http.get("/v1/speak", headers={"origin": origin})
        assert explained.status_code == 403
        assert explained.headers["access-control-allow-origin"] == "*"
        assert explained.json()["error"]["code"] == "forbidden"


async def test_a_rebound_host_name_is_refused() -> None:
    async with running() as server:
        explained = await server.http.get("/v1/speak", headers={"host": "evil.example"})
        assert explained.status_code == 403


async def test_a_key_is_needed_where_there_are_any() -> None:
    async with running(keys=KEYS) as server:
        assert await refusal(server.url) == (401, "unauthorized", None)
        wrong = {"Authorization": "Bearer wrong-wrong-wrong"}
        assert (await refusal(server.url, additional_headers=wrong))[0] == 401
        right = {"Authorization": f"Bearer {SPEAK_KEY}"}
        async with server.speak(additional_headers=right) as client:
            assert isinstance(await client.receive(), Hello)


async def test_a_token_opens_one_connection_and_asking_first_doesnt_use_it_up() -> None:
    async with running(keys=KEYS) as server:
        made = await server.http.post("/v1/tokens", headers={"authorization": f"Bearer {ADMIN_KEY}"})
        assert made.status_code == 201
        query = f"?token={made.json()['token']}"
        assert (await server.http.get(f"/v1/speak{query}")).status_code == 426
        async with server.speak(query) as client:
            assert isinstance(await client.receive(), Hello)
        assert await refusal(server.url + query) == (401, "unauthorized", None)


async def test_a_refused_handshake_leaves_the_token_good() -> None:
    async with running(keys=KEYS) as server:
        made = await server.http.post("/v1/tokens", headers={"authorization": f"Bearer {SPEAK_KEY}"})
        query = f"?token={made.json()['token']}"
        assert (await refusal(server.url + query, subprotocols=["chat"]))[0] == 400
        async with server.speak(query) as client:
            assert isinstance(await client.receive(), Hello)


async def test_a_tokens_limits_hold_for_its_connection() -> None:
    body = {"utterances": 2, "total_chars": 20, "voice": "a4"}
    async with running(keys=KEYS) as server:
        key = {"authorization": f"Bearer {SPEAK_KEY}"}
        token = (await server.http.post("/v1/tokens", headers=key, json=body)).json()["token"]
        async with server.speak(f"?token={token}") as client:
            await client.send(Open(id="a"), Text(id="a", text="Hello."), End(id="a"))
            started, *_ = [each for each in await client.receive_until(Done) if isinstance(each, Started)]
            assert started.voice == "a4"
            await client.send(Open(id="b"), Text(id="b", text="More than twenty characters."))
            assert [each.code for each in await client.receive_until(Done) if isinstance(each, Error)] == [
                "text_too_long"
            ]
            await client.send(Open(id="c"))
            assert [each.code for each in await client.receive_until(Done) if isinstance(each, Error)] == [
                "too_many_utterances"
            ]


async def test_a_plain_get_says_that_an_upgrade_would_succeed() -> None:
    async with running() as server:
        answer = await server.http.get("/v1/speak")
        assert answer.status_code == 426
        assert answer.json()["error"]["code"] == "upgrade_required"
        assert answer.headers["upgrade"] == "websocket"


async def test_one_connection_too_many_is_refused_with_when_to_come_again() -> None:
    async with running(max_connections=1) as server:
        async with server.speak() as client:
            await client.receive()
            status, code, retry_after = await refusal(server.url)
            assert (status, code) == (503, "busy")
            assert retry_after is not None
            assert (await server.http.get("/v1/speak")).status_code == 503
        with anyio.fail_after(5):
            while len(server.services.sessions):
                await anyio.lowlevel.checkpoint()
        async with server.speak() as client:
            assert isinstance(await client.receive(), Hello)


async def test_until_the_engine_is_loaded_sockets_are_refused() -> None:
    async with running(ready=False, engines={"tone": {"load_s": 0.5}}) as server:
        status, code, retry_after = await refusal(server.url)
        assert (status, code, retry_after) == (503, "engine_unavailable", "2")
        assert (await server.http.get("/readyz")).json() == {"reason": "loading"}
        with anyio.fail_after(10):
            await server.services.readiness.settled()
        async with server.speak() as client:
            assert isinstance(await client.receive(), Hello)


async def test_an_engine_that_cant_be_loaded_leaves_a_server_that_says_so() -> None:
    async with running(engines={"tone": {"fails_to_load": True}}) as server:
        ready = await server.http.get("/readyz")
        assert ready.status_code == 503
        assert "tone couldn't be loaded" in ready.json()["reason"]
        assert (await server.http.get("/livez")).status_code == 200
        assert (await refusal(server.url))[:2] == (503, "engine_unavailable")


async def test_a_websocket_to_another_address_is_refused() -> None:
    async with running() as server:
        with pytest.raises(InvalidStatus) as caught:
            async with connect(server.url.replace("/v1/speak", "/v1/other")):
                pass
        assert caught.value.response.status_code in {403, 404}


async def test_bad_messages_get_an_error_each_and_the_fifth_in_a_row_closes() -> None:
    async with running() as server, server.speak() as client:
        await client.receive()
        await client.socket.send(b"\xc1")
        error = await client.receive()
        assert isinstance(error, Error)
        assert (error.code, error.id) == ("bad_message", None)
        await client.send(Ping(t=1))
        assert await client.receive() == Pong(t=1)
        for _ in range(5):
            await client.socket.send(b"\xc1")
        with pytest.raises(ConnectionClosed):
            await client.receive_until(Done)
        assert client.socket.close_code == 1007


async def test_a_text_frame_in_the_binary_encoding_is_a_bad_message() -> None:
    async with running() as server, server.speak() as client:
        await client.receive()
        await client.socket.send('{"type": "ping"}')
        assert isinstance(await client.receive(), Error)
        await client.send(Ping())
        assert isinstance(await client.receive(), Pong)


async def test_a_message_over_the_limit_is_refused_and_the_connection_lives_on() -> None:
    async with running(message_bytes=2000) as server, server.speak() as client:
        await client.receive()
        await client.send(Open(id="a"), Text(id="a", text="x" * 2500))
        error, _ = (await client.receive_until(Done))[-2:]
        assert isinstance(error, Error)
        assert (error.code, error.id) == ("message_too_long", "a")
        await client.send(Ping())
        assert isinstance(await client.receive(), Pong)


async def test_a_message_over_the_transports_own_limit_closes_with_1009() -> None:
    async with running() as server, server.speak() as client:
        await client.receive()
        with pytest.raises(ConnectionClosed):  # noqa: PT012 - either of them may be the one that learns of it
            await client.socket.send(b"x" * (4 * 1024 * 1024 + 1))
            await client.receive()
        assert client.socket.close_code == 1009


async def test_an_idle_connection_is_told_and_closed() -> None:
    async with running(idle_s=0.2) as server, server.speak() as client:
        await client.receive()
        assert await client.receive() == Bye(reason="idle")
        with pytest.raises(ConnectionClosed):
            await client.receive()
        assert client.socket.close_code == 1000


async def test_a_flood_of_messages_from_one_leaves_the_loop_to_others() -> None:
    # The flooder never reads, so its close waits in vain for the answer.
    async with running() as server, server.speak(close_timeout=0) as flooder, server.speak() as other:
        await flooder.receive()
        await other.receive()
        await flooder.send(Open(id="a"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(flooder.send, *[Text(id="a", text="word ")] * 5000)
            for number in range(20):
                await other.send(Ping(t=number))
                assert await other.receive() == Pong(t=number)
            tasks.cancel_scope.cancel()
