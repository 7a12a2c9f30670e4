"""Promises of the wire page that an adversary's own client found broken."""

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from protocol.messages import Bye, Cancel, Done, End, Heard, Open, Text
from tests.ws_server.conversing import SENTENCE, serving, until
from tests.ws_server.running import running


async def test_a_client_that_only_listened_for_longer_than_idle_s_can_still_ask_what_was_heard() -> None:
    """Idle is a connection without an open utterance, not one whose client has had nothing to say meanwhile."""
    async with serving(idle_s=0.5) as server, server.connect() as talk:
        talk.say(Open(id="a", lead_ms=1000), Text(id="a", text=SENTENCE), End(id="a"))
        assert (await talk.done()).reason == "complete"
        assert not talk.heard(Bye)
        talk.say(Cancel(id="a", played_ms=480))
        assert (await talk.one(Heard)).end_char == len("One two")
        await until(lambda: talk.closed is not None)
        assert [bye.reason for bye in talk.heard(Bye)] == ["idle"]


async def test_a_full_server_names_a_time_to_come_again_that_is_not_now() -> None:
    async with running(max_connections=1) as server, server.speak() as client:
        await client.send(Open(id="a"), End(id="a"))
        await client.receive_until(Done)
        with pytest.raises(InvalidStatus) as refused:
            async with server.speak():
                pass
        assert refused.value.response.status_code == 503
        assert int(refused.value.response.headers["retry-after"]) >= 1
        told: httpx.Response = await server.http.get("/v1/speak")
        assert told.json()["error"]["retry_after_ms"] >= 1000
