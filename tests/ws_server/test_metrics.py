import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from websockets.exceptions import InvalidStatus

from protocol.messages import Cancel, End, Open, Ping, Pong, Text
from tests.ws_server.running import running
from ws_server.app import create_app
from ws_server.settings import Settings

DOC = Path(__file__).parents[2] / "docs" / "operating.md"


def names_and_kinds() -> dict[str, str]:
    app = create_app(Settings(engine="tone", page=False), probe=False)
    families = text_string_to_metric_families(app.services.metrics.text().decode())
    return {family.name: family.type for family in families if not family.name.endswith("_created")}


def test_the_page_for_operators_names_every_metric_and_no_other() -> None:
    rows = re.findall(r"^\| `(saystream_[a-z_]+)` \| (\w+) \|", DOC.read_text(), re.MULTILINE)
    documented = {name.removesuffix("_total") if kind == "counter" else name: kind for name, kind in rows}
    assert documented == names_and_kinds()


def samples(server_text: str) -> dict[str, float]:
    return {
        sample.name + str(sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(server_text)
        for sample in family.samples
        if "le" not in sample.labels
    }


async def test_what_is_spoken_is_counted() -> None:
    async with running() as server, server.speak() as client:
        await client.receive()
        await client.send(Open(id="a"), Text(id="a", text="Hello there."), End(id="a"))
        done = await client.receive_done()
        await client.send(Open(id="b"), Text(id="b", text="Hello"), Cancel(id="b"))
        await client.receive_done()
        await client.send(Open(id="c", voice="nobody"))
        await client.receive_done()
        seen = samples((await server.http.get("/metrics")).text)
        assert seen["saystream_utterances_total['complete', 'open']"] == 1
        assert seen["saystream_utterances_total['cancelled', 'open']"] == 1
        assert seen["saystream_characters_total['open']"] == 17
        assert seen["saystream_audio_seconds_total['open']"] == done.samples / 24000
        assert seen["saystream_errors_total['unknown_voice']"] == 1
        assert seen["saystream_cancels_total[]"] == 1
        assert seen["saystream_first_audio_seconds_count[]"] == 1
        assert seen["saystream_step_seconds_count['tone']"] >= 1
        assert seen["saystream_connections[]"] == 1
        assert seen["saystream_connections_opened_total['open']"] == 1
        assert seen["saystream_ready[]"] == 1


async def test_an_utterance_that_ends_with_its_connection_is_counted_as_dropped() -> None:
    async with running() as server:
        async with server.speak() as client:
            await client.receive()
            await client.send(Open(id="a"), Text(id="a", text="Hello"))
            await client.send(Ping())
            await client.receive_until(Pong)
        seen: dict[str, float] = {}
        while "saystream_utterances_total['dropped', 'open']" not in seen:
            seen = samples((await server.http.get("/metrics")).text)
        assert seen["saystream_connections[]"] == 0


async def test_a_refused_handshake_is_counted_by_its_status() -> None:
    async with running() as server:
        with pytest.raises(InvalidStatus):
            async with server.speak(origin="https://evil.example"):
                pass
        seen = samples((await server.http.get("/metrics")).text)
        assert seen["saystream_connections_refused_total['403']"] == 1
