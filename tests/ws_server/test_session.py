"""The verbs of the wire, one session and a real device: what each does and what it leaves behind."""

from contextlib import AsyncExitStack

import pytest

from protocol.messages import (
    Audio,
    Bye,
    Cancel,
    CancelAll,
    Done,
    End,
    Error,
    Flush,
    Flushed,
    Heard,
    HeardText,
    Hello,
    Open,
    Ping,
    Played,
    Pong,
    Queued,
    Segment,
    ServerMessage,
    Text,
)
from tests.ws_server.conversing import RATE_HZ, SENTENCE, SENTENCE_SAMPLES, Conversing, serving, until


def speak(talk: Conversing, id: str = "a", text: str = SENTENCE, **fields: object) -> None:  # noqa: A002 - the wire's name
    talk.say(Open(id=id, **fields), Text(id=id, text=text), End(id=id))  # type: ignore[arg-type]


async def test_an_utterance_goes_from_open_to_done_with_all_of_its_audio() -> None:
    async with serving() as server, server.connect() as talk:
        speak(talk, tag="t")
        done = await talk.done()
        assert (done.reason, done.tag, done.chars) == ("complete", "t", len(SENTENCE))
        assert done.samples == talk.samples() == SENTENCE_SAMPLES
        assert isinstance(talk.messages[0], Hello)
        await server.until_nothing_is_left()


async def test_the_first_frame_is_about_20_ms() -> None:
    async with serving() as server, server.connect() as talk:
        speak(talk)
        assert len((await talk.one(Audio)).pcm) == 2 * RATE_HZ * 20 // 1000


# Interrupting -------------------------------------------------------------------------------------------------


async def test_a_cancel_at_once_after_open_ends_it_unheard() -> None:
    async with serving() as server, server.connect() as talk:
        talk.say(Open(id="a"), Cancel(id="a"))
        done = await talk.done()
        assert (done.reason, done.samples) == ("cancelled", 0)
        assert done.heard == HeardText(end_char=0, exact=True, played_ms=0)
        await server.until_nothing_is_left()


async def test_a_cancel_in_mid_sentence_ends_it_and_leaves_others_alone() -> None:
    async with serving() as server, server.connect() as talk:
        speak(talk, "a", f"{SENTENCE} {SENTENCE} {SENTENCE}", lead_ms=1000)
        speak(talk, "b")
        await talk.some(Audio, 3, id="a")
        talk.say(Cancel(id="a"))
        done = await talk.done("a")
        assert done.reason == "cancelled"
        assert 0 < done.samples < 3 * SENTENCE_SAMPLES
        assert (await talk.done("b")).samples == SENTENCE_SAMPLES
        assert len(talk.heard(Done, id="a")) == 1
        await server.until_nothing_is_left()


async def test_a_cancel_during_a_step_is_answered_without_waiting_for_it() -> None:
    async with serving() as server, server.connect() as talk:
        server.gate.shut()
        speak(talk)
        await until(lambda: server.gate.held == 1)
        talk.say(Cancel(id="a"))
        assert (await talk.done()).reason == "cancelled"
        assert server.gate.held == 1
        server.gate.open()
        await server.until_nothing_is_left()
        assert talk.samples() == 0


async def test_a_second_cancel_says_nothing() -> None:
    async with serving() as server, server.connect() as talk:
        talk.say(Open(id="a"), Text(id="a", text=SENTENCE))
        talk.say(Cancel(id="a"))
        talk.session.receive(Cancel(id="a"))
        talk.say(Ping(t=1))
        await talk.one(Pong)
        assert len(talk.heard(Done)) == 1
        assert not talk.heard(Heard)


async def test_a_cancel_after_end_stops_what_is_still_to_come() -> None:
    async with serving() as server, server.connect() as talk:
        speak(talk, text=f"{SENTENCE} {SENTENCE}", lead_ms=500)
        await talk.one(Audio)
        talk.say(Cancel(id="a"))
        assert (await talk.done()).reason == "cancelled"
        await server.until_nothing_is_left()


async def test_after_a_cancel_the_same_id_speaks_anew() -> None:
    async with serving() as server, server.connect() as talk:
        speak(talk, lead_ms=500)
        await talk.one(Audio)
        talk.say(Cancel(id="a"))
        await talk.done()
        talk.messages.clear()
        speak(talk)
        assert (await talk.done()).samples == SENTENCE_SAMPLES == talk.samples()


async def test_heard_is_the_last_word_that_was_played_whole() -> None:
    # "One two three" at 60 ms a character and after each word: One is over at 180 ms, two at 420 ms.
    async with serving() as server, server.connect() as talk:
        speak(talk, lead_ms=1000)
        while talk.samples() < RATE_HZ // 2:
            await talk.some(Audio, len(talk.heard(Audio)) + 1)
        talk.say(Cancel(id="a", played_ms=430))
        heard = (await talk.done()).heard
        assert heard == HeardText(end_char=len("One two"), exact=True, played_ms=430)


async def test_played_ms_beyond_what_was_sent_is_what_was_sent() -> None:
    async with serving() as server, server.connect() as talk:
        speak(talk, lead_ms=300)
        await talk.one(Audio)
        talk.say(Cancel(id="a", played_ms=1e9))
        done = await talk.done()
        assert done.heard is not None
        # A frame that is on its way isn't sent yet.
        assert 0 < done.heard.played_ms <= done.samples / RATE_HZ * 1000


async def test_replaces_ends_the_old_before_every_word_of_the_new() -> None:
    async with serving() as server, server.connect() as talk:
        talk.say(Open(id="a"), Text(id="a", text=SENTENCE))
        await talk.one(Audio, id="a")
        speak(talk, "b", replaces="a", replaced_played_ms=190.0)
        await talk.done("b")
        old = talk.heard(Done, id="a")[0]
        assert old.reason == "replaced"
        assert old.heard is not None
        named_b = [at for at, message in enumerate(talk.messages) if getattr(message, "id", None) == "b"]
        assert talk.messages.index(old) < named_b[0]


async def test_replaces_may_name_its_own_id() -> None:
    async with serving() as server, server.connect() as talk:
        talk.say(Open(id="a"), Text(id="a", text=SENTENCE))
        await talk.one(Audio, id="a")
        speak(talk, "a", replaces="a")
        first, second = await talk.some(Done, 2, id="a")
        assert (first.reason, second.reason, second.samples) == ("replaced", "complete", SENTENCE_SAMPLES)


async def test_replaces_of_an_unknown_id_has_no_effect() -> None:
    async with serving() as server, server.connect() as talk:
        speak(talk, replaces="nobody")
        assert (await talk.done()).reason == "complete"


async def test_replaces_ends_the_old_one_even_if_the_new_is_refused() -> None:
    async with serving() as server, server.connect() as talk:
        talk.say(Open(id="a"), Text(id="a", text=SENTENCE))
        talk.say(Open(id="b", replaces="a", voice="nobody"))
        assert (await talk.failed("b")).code == "unknown_voice"
        assert [done.id for done in talk.heard(Done)] == ["a", "b"]
        await server.until_nothing_is_left()


async def test_replaces_takes_over_the_slot_before_those_who_wait() -> None:
    async with serving(max_streams=1) as server, server.connect() as talk:
        talk.say(Open(id="a"), Text(id="a", text=SENTENCE))
        await talk.one(Audio, id="a")
        speak(talk, "waits")
        await talk.one(Queued, id="waits")
        talk.say(Open(id="b", replaces="a"), Text(id="b", text=SENTENCE))
        await talk.one(Audio, id="b")
        assert server.services.dispatcher.queued == 1
        talk.say(Cancel(id="b"))
        assert (await talk.done("waits")).reason == "complete"


async def test_replacing_a_complete_one_is_answered_by_heard() -> None:
    async with serving() as server, server.connect() as talk:
        speak(talk)
        await talk.done()
        speak(talk, "b", replaces="a", replaced_played_ms=190.0)
        await talk.done("b")
        assert talk.heard(Heard) == [Heard(id="a", end_char=3, exact=True, played_ms=190)]


async def test_cancel_all_ends_what_is_open_and_answers_what_is_complete() -> None:
    async with serving() as server, server.connect() as talk:
        speak(talk, "complete")
        await talk.done("complete")
        for id_ in ("a", "b"):
            talk.say(Open(id=id_), Text(id=id_, text=SENTENCE))
        talk.say(CancelAll())
        assert (await talk.done("a")).reason == (await talk.done("b")).reason == "cancelled"
        await talk.one(Heard, id="complete")
        talk.say(CancelAll(), Ping())
        await talk.one(Pong)
        assert (len(talk.heard(Done)), len(talk.heard(Heard))) == (3, 1)
        await server.until_nothing_is_left()


async def test_a_complete_one_is_asked_once_what_was_heard() -> None:
    async with serving() as server, server.connect() as talk:
        speak(talk)
        await talk.done()
        talk.say(Cancel(id="a", played_ms=1e6))
        heard = await talk.one(Heard)
        assert (heard.end_char, heard.exact) == (len(SENTENCE), True)
        talk.session.receive(Cancel(id="a"))
        talk.say(Ping())
        await talk.one(Pong)
        assert len(talk.heard(Heard)) == 1


async def test_after_its_receipt_time_a_complete_one_is_forgotten() -> None:
    async with serving(receipt_s=0.05) as server, server.connect() as talk:
        speak(talk, text="One.")
        await talk.done()
        await until(lambda: not talk.session._receipts)
        talk.say(Cancel(id="a"), Ping())
        await talk.one(Pong)
        assert not talk.heard(Heard)


# Text ---------------------------------------------------------------------------------------------------------


async def test_flushes_are_answered_in_order_where_their_text_has_ended() -> None:
    async with serving() as server, server.connect() as talk:
        talk.say(Open(id="a", lead_ms=0.0))
        for mark in (1, "two", None):
            talk.say(Text(id="a", text="One two"), Flush(id="a", mark=mark))
        talk.say(Flush(id="a", mark="again"), End(id="a"))
        await talk.done()
        one_piece = (3 + 3 + 2) * 60 * RATE_HZ // 1000
        assert talk.heard(Flushed) == [
            Flushed(id="a", mark=1, at_sample=one_piece),
            Flushed(id="a", mark="two", at_sample=2 * one_piece),
            Flushed(id="a", mark=None, at_sample=3 * one_piece),
            Flushed(id="a", mark="again", at_sample=3 * one_piece),
        ]


async def test_pending_flushes_are_settled_by_done() -> None:
    async with serving() as server, server.connect() as talk:
        server.gate.shut()
        talk.say(Open(id="a"), Text(id="a", text="One two"), Flush(id="a", mark=1), Cancel(id="a"))
        await talk.done()
        server.gate.open()
        await server.until_nothing_is_left()
        assert not talk.heard(Flushed)


async def test_too_many_pending_flushes_fail_it() -> None:
    async with serving(pending_flushes=3) as server, server.connect() as talk:
        server.gate.shut()
        talk.say(Open(id="a"), Text(id="a", text="One two"))
        for _ in range(4):
            talk.say(Flush(id="a"))
        assert (await talk.failed()).code == "rate_limited"


@pytest.mark.parametrize("text", ["", "   ", "...", "!!!", '""', "\n\n", "🙂 🙃"])
async def test_nothing_to_say_ends_properly_with_no_samples(text: str) -> None:
    async with serving() as server, server.connect() as talk:
        speak(talk, text=text)
        done = await talk.done()
        assert (done.reason, done.samples, done.chars) == ("complete", 0, len(text))
        assert not talk.heard(Segment)


async def test_text_for_what_isnt_open_creates_nothing() -> None:
    async with serving() as server, server.connect() as talk:
        for message in (Text(id="x", text="Hello."), Flush(id="x"), End(id="x"), Played(id="x", ms=1)):
            talk.session.receive(message)
        talk.say(Ping())
        await talk.one(Pong)
        assert [type(message) for message in talk.messages] == [Hello, Pong]
        assert server.counts == (0, 0, 0, 0)


async def test_text_after_end_fails_it() -> None:
    async with serving() as server, server.connect() as talk:
        speak(talk, text=f"{SENTENCE} {SENTENCE}", lead_ms=500)
        talk.session.receive(Text(id="a", text="more"))
        assert (await talk.failed()).code == "bad_message"
        await server.until_nothing_is_left()


async def test_a_voice_changed_in_the_middle_is_refused_and_changes_nothing() -> None:
    async with serving() as server, server.connect() as talk:
        talk.say(Open(id="a", voice="a4"), Text(id="a", text=SENTENCE))
        talk.session.receive(Open(id="a", voice="a5"))
        error = await talk.one(Error)
        assert (error.code, error.id, error.param, error.value) == ("duplicate_id", None, "id", "a")
        talk.say(End(id="a"))
        assert (await talk.done()).samples == SENTENCE_SAMPLES


async def test_a_token_that_isnt_followed_is_spoken_after_the_wait() -> None:
    async with serving(wait_ms=1) as server, server.connect() as talk:
        talk.say(Open(id="a"), Text(id="a", text="It is so."))
        assert (await talk.one(Segment)).end_char == len("It is so.")
        talk.say(End(id="a"))
        assert (await talk.done()).stats.forced_cuts == 0


async def test_an_unfinished_tail_is_spoken_after_the_stall() -> None:
    async with serving(wait_ms=1, stall_ms=20) as server, server.connect() as talk:
        talk.say(Open(id="a"), Text(id="a", text="It is unfin"))
        await talk.one(Segment, end_char=len("It is unfin"))


async def test_a_cut_is_forced_before_the_listener_runs_dry() -> None:
    async with serving(wait_ms=60_000, stall_ms=600_000) as server, server.connect() as talk:
        talk.say(Open(id="a"), Text(id="a", text=f"{SENTENCE} Three four five six seven"))
        first, second = await talk.some(Segment, 2)
        assert (first.end_char, second.start_char) == (len(SENTENCE), len(SENTENCE) + 1)
        talk.say(End(id="a"))
        assert (await talk.done()).stats.forced_cuts >= 1


# The clock ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lead_ms", [200.0, 1000.0])
async def test_no_more_than_the_lead_is_sent_to_a_listener_who_paused(lead_ms: float) -> None:
    async with serving() as server, server.connect() as talk:
        talk.say(Open(id="a", lead_ms=lead_ms), Played(id="a", ms=0, state="paused"))
        talk.say(Text(id="a", text=f"{SENTENCE} {SENTENCE}"), End(id="a"))
        most_samples = lead_ms * RATE_HZ // 1000
        await until(lambda: talk.samples() > most_samples - RATE_HZ // 10)
        talk.say(Ping())
        await talk.one(Pong)
        assert talk.samples() <= most_samples
        assert not talk.heard(Done)
        talk.say(Played(id="a", ms=0))
        await talk.some(Audio, len(talk.heard(Audio)) + 1)


async def test_a_lead_is_clamped_to_the_limit() -> None:
    async with serving(lead_ms=500) as server, server.connect() as talk:
        talk.say(Open(id="a", lead_ms=1e9), Played(id="a", ms=0, state="paused"))
        talk.say(Text(id="a", text=SENTENCE), End(id="a"))
        await until(lambda: talk.samples() > RATE_HZ * 0.4)
        talk.say(Ping())
        await talk.one(Pong)
        assert talk.samples() <= RATE_HZ // 2


async def test_a_rendering_is_sent_whole_to_one_who_plays_nothing() -> None:
    async with serving() as server, server.connect() as talk:
        talk.say(Open(id="a", lead_ms=0.0), Played(id="a", ms=0, state="paused"))
        talk.say(Text(id="a", text=" ".join([SENTENCE] * 8)), End(id="a"))
        assert (await talk.done()).samples == 8 * SENTENCE_SAMPLES


async def test_a_rendering_waits_while_someone_live_can_be_served() -> None:
    async with serving(engines={"tone": {"step_ms": 200}}) as server, server.connect() as talk:
        server.gate.shut()
        speak(talk, "first", text="One.")
        await until(lambda: server.gate.held == 1)
        speak(talk, "rendering", lead_ms=0.0)
        speak(talk, "live", text="One two.")
        server.gate.open()
        await talk.done("rendering")
        spoken = [message.id for message in talk.heard(Audio)]
        assert spoken.index("live") < spoken.index("rendering")


# Waiting and ends ---------------------------------------------------------------------------------------------


async def test_a_full_server_queues_and_then_says_busy_and_the_same_socket_tries_again() -> None:
    async with serving(max_streams=1, queue=1) as server, server.connect() as talk:
        talk.say(Open(id="a"), Text(id="a", text=SENTENCE))
        await talk.one(Audio, id="a")
        speak(talk, "b")
        assert (await talk.one(Queued, id="b")).position == 1
        speak(talk, "c")
        error = await talk.failed("c")
        assert (error.code, error.retryable) == ("busy", True)
        assert error.retry_after_ms is not None
        assert error.retry_after_ms > 0
        talk.say(Cancel(id="a"))
        assert (await talk.done("b")).reason == "complete"
        talk.messages.clear()
        speak(talk, "c")
        assert (await talk.done("c")).reason == "complete"


async def test_one_that_waits_too_long_is_told_busy() -> None:
    async with serving(max_streams=1, queue_wait_s=0.01) as server, server.connect() as talk:
        talk.say(Open(id="a"), Text(id="a", text=SENTENCE))
        await talk.one(Audio, id="a")
        speak(talk, "b")
        assert (await talk.failed("b")).code == "busy"
        assert server.services.dispatcher.queued == 0


async def test_one_cancelled_while_it_waits_gives_its_place_back() -> None:
    async with serving(max_streams=1) as server, server.connect() as talk:
        talk.say(Open(id="a"), Text(id="a", text=SENTENCE))
        await talk.one(Audio, id="a")
        speak(talk, "b")
        await talk.one(Queued, id="b")
        talk.say(Cancel(id="b"))
        assert (await talk.done("b")).reason == "cancelled"
        assert server.services.dispatcher.queued == 0


async def test_one_that_waits_for_a_load_is_told_so() -> None:
    async with serving(loaded=False, engines={"tone": {"load_s": 0.01}}) as server, server.connect() as talk:
        speak(talk)
        assert (await talk.one(Queued)).reason == "loading"
        server.gate.open()
        assert (await talk.done()).reason == "complete"


async def test_an_utterance_without_text_ends_by_a_timeout() -> None:
    async with serving(utterance_idle_s=0.05) as server, server.connect() as talk:
        talk.say(Open(id="a"))
        done = await talk.done()
        assert done.reason == "timeout"
        assert talk.heard(Error, id="a")[0].code == "idle_timeout"


async def test_one_that_waits_for_a_slot_doesnt_time_out() -> None:
    async with serving(utterance_idle_s=0.05, max_streams=1) as server, server.connect() as talk:
        talk.say(Open(id="speaks"), Text(id="speaks", text=SENTENCE))
        await talk.one(Audio, id="speaks")
        talk.say(Open(id="waits"), Text(id="waits", text="One."), Flush(id="waits"))
        await talk.one(Queued, id="waits")
        talk.say(Open(id="nothing"))
        assert (await talk.done("nothing")).reason == "timeout"
        await talk.one(Audio, id="waits")


async def test_a_paused_listener_doesnt_time_out() -> None:
    async with serving(utterance_idle_s=0.05) as server, server.connect() as talk:
        talk.say(Open(id="paused"), Text(id="paused", text="One."), Flush(id="paused"))
        await talk.one(Flushed, id="paused")
        talk.say(Played(id="paused", ms=0, state="paused"), Open(id="nothing"))
        assert (await talk.done("nothing")).reason == "timeout"
        assert not talk.heard(Done, id="paused")
        talk.say(Played(id="paused", ms=0))
        assert (await talk.done("paused")).reason == "timeout"


async def test_one_that_is_still_being_heard_doesnt_time_out() -> None:
    # 2.5 s of tone are sent as they are played, and its text came at once.
    async with serving(utterance_idle_s=0.05) as server, server.connect() as talk:
        talk.say(Open(id="a", lead_ms=300.0, wait_ms=0.0), Text(id="a", text=SENTENCE))
        done = await talk.done()
        assert (done.reason, done.samples) == ("timeout", SENTENCE_SAMPLES)


async def test_a_connection_with_nothing_open_is_told_that_it_is_idle() -> None:
    async with serving(idle_s=0.05) as server, server.connect() as talk:
        assert (await talk.one(Bye)).reason == "idle"
        await until(lambda: talk.closed is not None)
        assert talk.closed is not None
        assert talk.closed.code == 1000


async def test_a_drain_lets_the_open_one_speak_on_and_refuses_the_new_and_the_waiting() -> None:
    async with serving(max_streams=1) as server, server.connect() as talk:
        talk.say(Open(id="a"), Text(id="a", text=SENTENCE))
        await talk.one(Audio, id="a")
        speak(talk, "waiting")
        await talk.one(Queued, id="waiting")
        server.services.drain()
        assert (await talk.one(Bye)).reason == "draining"
        assert (await talk.failed("waiting")).code == "shutting_down"
        speak(talk, "new")
        assert (await talk.failed("new")).code == "shutting_down"
        talk.say(Text(id="a", text=" Nine ten."), End(id="a"))
        done = await talk.done("a")
        assert (done.reason, done.chars) == ("complete", len(SENTENCE) + len(" Nine ten."))
        await until(lambda: talk.closed is not None)
        assert talk.closed is not None
        assert talk.closed.code == 1001


async def test_at_the_drains_deadline_the_rest_fail_with_what_was_heard() -> None:
    async with serving(drain_s=0.05) as server, server.connect() as talk:
        talk.say(Open(id="a"), Text(id="a", text=SENTENCE))
        await talk.one(Audio, id="a")
        server.services.drain()
        done = await talk.done()
        assert done.reason == "failed"
        assert done.heard is not None
        assert talk.heard(Error, id="a")[0].code == "shutting_down"
        await server.until_nothing_is_left()


async def test_leaving_cancels_all_and_frees_all() -> None:
    async with serving(max_streams=2) as server:
        async with server.connect() as talk:
            server.gate.shut()
            for id_ in ("a", "b", "c"):
                speak(talk, id_)
            await until(lambda: server.gate.held == 1 and server.services.dispatcher.queued == 1)
        assert len(server.services.sessions) == 0
        server.gate.open()
        await server.until_nothing_is_left()


def of(messages: list[ServerMessage], id: str) -> list[str]:  # noqa: A002 - the wire's name
    return [type(message).__name__ for message in messages if getattr(message, "id", None) == id]


async def test_four_callers_speak_at_once_on_a_serial_device() -> None:
    """No staircase: each has its first audio before any has its second segment."""
    async with serving() as server, AsyncExitStack() as connections:
        talks = [await connections.enter_async_context(server.connect()) for _ in range(4)]
        server.gate.shut()
        for talk in talks:
            speak(talk, text=" ".join([SENTENCE] * 4))
        await until(lambda: server.gate.held == 1)
        server.gate.open()
        for talk in talks:
            await talk.one(Audio)
            assert of(talk.messages, "a").count("Segment") == 1
