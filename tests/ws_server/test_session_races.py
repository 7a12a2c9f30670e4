"""What happens to a session when things come at the wrong moment, or too often."""

from protocol.errors import BadMessage
from protocol.messages import Audio, Bye, Cancel, Done, End, Open, Ping, Text
from tests.ws_server.conversing import SENTENCE, SENTENCE_SAMPLES, serving, until


async def test_a_frame_of_the_old_that_is_on_its_way_isnt_counted_for_the_new_with_its_id() -> None:
    async with serving() as server, server.connect() as talk:
        talk.stop_reading(after=Audio)
        talk.say(Open(id="a"), Text(id="a", text=SENTENCE))
        await until(lambda: talk.session._watch.blocked)
        talk.say(Open(id="a", replaces="a"))
        talk.read_again()
        await talk.one(Done, reason="replaced")
        new = talk.session._utterances["a"]
        assert new.tally.first_sent_s is None
        talk.say(Text(id="a", text=SENTENCE), End(id="a"))
        done = await talk.one(Done, reason="complete")
        assert done.samples == SENTENCE_SAMPLES
        assert done.stats.ttfa_ms
        assert done.stats.ttfa_ms > 0


async def test_one_who_asks_on_and_on_without_reading_is_closed_and_holds_little() -> None:
    async with serving() as server, server.connect() as talk:
        talk.stop_reading()
        await until(lambda: talk.session._watch.blocked)
        for number in range(20_000):
            talk.session.receive(Ping(t=number))
        assert len(talk.session._control) <= 1100
        talk.read_again()
        await until(lambda: talk.closed is not None)
        assert talk.closed is not None
        assert talk.closed.code == 1008
        assert talk.heard(Bye)[0].reason == "policy"


async def test_one_who_opens_on_and_on_without_reading_is_closed_and_holds_little() -> None:
    async with serving(utterances=10) as server, server.connect() as talk:
        talk.stop_reading()
        await until(lambda: talk.session._watch.blocked)
        for number in range(20_000):
            talk.session.receive(Open(id=str(number)))
        assert len(talk.session._control) <= 1100
        assert len(talk.session._utterances) <= 10
        assert server.services.dispatcher.open_listeners <= 10


async def test_after_a_close_was_decided_nothing_more_is_heeded() -> None:
    async with serving() as server, server.connect() as talk:
        for _ in range(5):
            talk.session.receive_bad(BadMessage("bad_message", "no", undecodable=True))
        talk.session.receive(Open(id="late"))
        await until(lambda: talk.closed is not None)
        assert talk.closed is not None
        assert talk.closed.code == 1007
        assert not talk.heard(Done, id="late")
        assert server.services.dispatcher.open_listeners == 0


async def test_a_blocked_socket_stops_the_engine_for_all_of_its_utterances_and_for_no_other() -> None:
    async with serving() as server, server.connect() as slow, server.connect() as quick:
        slow.stop_reading(after=Audio)
        for talk in (slow, quick):
            talk.say(Open(id="a", lead_ms=0.0), Text(id="a", text=SENTENCE))
        await until(lambda: slow.session._watch.blocked)
        slow.say(Text(id="a", text=f" {SENTENCE}" * 5), End(id="a"))
        quick.say(Text(id="a", text=f" {SENTENCE}" * 5), End(id="a"))
        assert (await quick.done()).samples == 6 * SENTENCE_SAMPLES
        # One step was maybe begun before it was known; the lead doesn't bound a rendering.
        assert slow.session._utterances["a"].tally.compute_s < 0.02 * 6 * 2.5
        assert not slow.heard(Done)
        slow.read_again()
        assert (await slow.done()).samples == 6 * SENTENCE_SAMPLES


async def test_a_cancel_overtakes_what_waits_behind_a_slow_reader() -> None:
    async with serving() as server, server.connect() as talk:
        talk.stop_reading(after=Audio)
        talk.say(Open(id="a", lead_ms=0.0), Text(id="a", text=f"{SENTENCE} " * 20), End(id="a"))
        await until(lambda: talk.session._watch.blocked)
        frames = len(talk.heard(Audio))
        talk.say(Cancel(id="a"))
        talk.read_again()
        await talk.done()
        assert len(talk.heard(Audio)) <= frames + 1
        await server.until_nothing_is_left()
