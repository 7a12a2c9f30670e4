"""The rules of the wire page, from the client's end."""

from typing import Any

import pytest

from protocol.client import REMEMBERED
from protocol.conversation import ClientConversation
from protocol.errors import LocalProtocolError, RemoteProtocolError, make_error, make_refusal
from protocol.limits import Limits
from protocol.messages import (
    Bye,
    Cancel,
    CancelAll,
    ClientMessage,
    End,
    Flush,
    Open,
    Ping,
    Played,
    Pong,
    ServerMessage,
    Text,
)
from tests.protocol.examples import (
    audio,
    done,
    failure,
    flushed,
    heard,
    hello,
    queued,
    segment,
    started,
    words,
)

HIGH, LOW = "\ud83d", "\ude00"


def talk(*sent: ClientMessage, said: tuple[ServerMessage, ...] = ()) -> ClientConversation:
    conversation = ClientConversation()
    conversation.receive(hello(Limits(text_chars=10)))
    for message in sent:
        conversation.send(message)
    for reply in said:
        conversation.receive(reply)
    return conversation


# What it may say ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message", [Text(id="a", text="x"), Flush(id="a"), End(id="a"), Played(id="a", ms=1), Cancel(id="a")]
)
def test_nothing_is_said_about_an_id_that_was_never_opened(message: ClientMessage) -> None:
    with pytest.raises(LocalProtocolError):
        talk().send(message)


@pytest.mark.parametrize(
    "message", [Text(id="a", text="x"), Flush(id="a"), End(id="a"), Played(id="a", ms=1), Cancel(id="a")]
)
@pytest.mark.parametrize("reason", ["failed", "cancelled"])
def test_what_the_end_has_overtaken_isnt_sent(message: ClientMessage, reason: Any) -> None:
    if reason == "failed":
        conversation = talk(Open(id="a"), said=(failure(), done("failed")))
    else:
        conversation = talk(Open(id="a"), Cancel(id="a"), said=(done("cancelled"),))
    assert conversation.send(message) == ()


def test_what_is_in_order_goes_out_as_it_is() -> None:
    conversation = talk()
    for message in (
        Open(id="a"),
        Text(id="a", text="x"),
        Flush(id="a"),
        Played(id="a", ms=1),
        End(id="a"),
        Ping(),
    ):
        assert conversation.send(message) == (message,)


def test_it_may_speak_before_hello() -> None:
    assert ClientConversation().send(Open(id="a")) == (Open(id="a"),)


def test_an_open_id_isnt_opened() -> None:
    with pytest.raises(LocalProtocolError):
        talk(Open(id="a")).send(Open(id="a"))
    with pytest.raises(LocalProtocolError):
        talk(Open(id="a"), Cancel(id="a")).send(Open(id="a"))


@pytest.mark.parametrize("message", [Text(id="a", text="x"), Flush(id="a"), End(id="a")])
def test_nothing_follows_an_end(message: ClientMessage) -> None:
    with pytest.raises(LocalProtocolError):
        talk(Open(id="a"), End(id="a")).send(message)


def test_an_increment_keeps_to_the_servers_limit() -> None:
    conversation = talk(Open(id="a"))
    conversation.send(Text(id="a", text="x" * 10))
    with pytest.raises(LocalProtocolError):
        conversation.send(Text(id="a", text="x" * 11))


def test_half_a_character_is_held_back() -> None:
    conversation = talk(Open(id="a"))
    assert conversation.send(Text(id="a", text="x" + HIGH)) == (Text(id="a", text="x"),)
    assert conversation.send(Text(id="a", text=LOW)) == (Text(id="a", text="😀"),)
    assert conversation.send(Text(id="a", text=HIGH)) == ()
    assert conversation.send(End(id="a")) == (Text(id="a", text="\ufffd"), End(id="a"))


def test_after_a_cancel_nothing_more_is_said_about_it() -> None:
    conversation = talk(Open(id="a"))
    assert conversation.send(Cancel(id="a")) == (Cancel(id="a"),)
    assert conversation.send(Cancel(id="a")) == ()
    assert conversation.send(Text(id="a", text="x")) == ()
    assert conversation.send(Played(id="a", ms=1)) == ()


def test_a_complete_one_can_be_cancelled_once() -> None:
    conversation = talk(Open(id="a"), End(id="a"), said=(done(),))
    assert conversation.send(Cancel(id="a")) == (Cancel(id="a"),)
    assert conversation.receive(heard())
    assert conversation.send(Cancel(id="a")) == ()
    with pytest.raises(RemoteProtocolError):
        conversation.receive(heard())


# What it takes --------------------------------------------------------------------------------------------------


def test_hello_comes_first_and_once() -> None:
    conversation = ClientConversation()
    with pytest.raises(RemoteProtocolError):
        conversation.receive(Pong())
    conversation.receive(hello())
    assert conversation.hello == hello()
    with pytest.raises(RemoteProtocolError):
        conversation.receive(hello())


def test_an_utterance_from_open_to_done() -> None:
    conversation = talk(Open(id="a", words=True), Text(id="a", text="x"), Flush(id="a", mark=1), End(id="a"))
    for message in (
        queued(),
        started(),
        segment(),
        words((0, 3, 0, 240)),
        audio(),
        words((4, 6, 480, 960)),
        audio(1, 480),
        flushed(960, 1),
        done(samples=960),
    ):
        assert conversation.receive(message)
    assert conversation.open_ids == ()


def test_what_belongs_to_no_utterance_is_taken() -> None:
    conversation = talk()
    for message in (Pong(), Bye(reason="draining"), make_error("bad_message", "what?")):
        assert conversation.receive(message)


@pytest.mark.parametrize("message", [started(), audio(), done(), failure(), heard()])
def test_nothing_is_taken_about_what_wasnt_opened(message: ServerMessage) -> None:
    with pytest.raises(RemoteProtocolError):
        talk().receive(message)


@pytest.mark.parametrize("message", [started(), audio(), done(), failure(), heard()])
def test_nothing_is_taken_after_done(message: ServerMessage) -> None:
    with pytest.raises(RemoteProtocolError):
        talk(Open(id="a"), End(id="a"), said=(done(),)).receive(message)


@pytest.mark.parametrize(
    "message",
    [
        audio(1),
        audio(0, 1),
        audio(samples=0),
        audio(sample_bytes=1, samples=3),
        segment(0),
        flushed(),
        done(),
    ],
)
def test_a_server_that_breaks_the_order_is_found_out(message: ServerMessage) -> None:
    with pytest.raises(RemoteProtocolError):
        talk(Open(id="a"), said=(started(), segment())).receive(message)


def test_complete_before_the_end_is_a_fault() -> None:
    with pytest.raises(RemoteProtocolError):
        talk(Open(id="a")).receive(done())


def test_what_still_comes_after_a_cancel_is_checked_and_discarded() -> None:
    conversation = talk(Open(id="a"), said=(started(), segment()))
    conversation.send(Cancel(id="a"))
    assert not conversation.receive(audio())
    with pytest.raises(RemoteProtocolError):
        conversation.receive(audio(2, 480))
    assert conversation.receive(done("cancelled", samples=480))


def test_a_refusal_is_an_end_like_any_other() -> None:
    conversation = talk(Open(id="a"))
    for message in make_refusal(make_error("unknown_voice", "who?", id="a"), None):
        assert conversation.receive(message)
    assert conversation.open_ids == ()
    assert conversation.send(Open(id="a")) == (Open(id="a"),)


# Races ----------------------------------------------------------------------------------------------------------


def test_a_cancel_that_crosses_complete_is_answered_by_heard() -> None:
    conversation = talk(Open(id="a"), End(id="a"), Cancel(id="a"))
    assert conversation.receive(done())
    assert conversation.receive(heard())


def test_cancel_all_reaches_open_and_complete_ones() -> None:
    conversation = talk(Open(id="a"), End(id="a"), Open(id="b"), said=(done(),))
    assert conversation.send(CancelAll()) == (CancelAll(),)
    assert conversation.receive(heard())
    assert conversation.receive(done("cancelled", id_="b"))


def test_what_replaces_waits_for_the_end_of_the_old() -> None:
    conversation = talk(Open(id="a"), Open(id="b", replaces="a"))
    with pytest.raises(RemoteProtocolError):
        conversation.receive(started("b"))
    assert conversation.receive(done("replaced"))
    assert conversation.receive(started("b"))


def test_an_id_that_replaces_itself_has_two_ends_in_turn() -> None:
    conversation = talk(Open(id="a"), said=(started(), segment()))
    conversation.send(Open(id="a", replaces="a"))
    assert not conversation.receive(audio())
    assert conversation.receive(done("replaced", samples=480))
    assert "a" in conversation.open_ids
    conversation.send(End(id="a"))
    assert conversation.receive(done())
    assert conversation.open_ids == ()


def test_a_replacement_that_crosses_complete_is_answered_by_heard() -> None:
    conversation = talk(Open(id="a"), End(id="a"), Open(id="a", replaces="a"))
    for message in (done(), heard(), started()):
        assert conversation.receive(message)


def test_replacing_what_was_never_opened_is_allowed() -> None:
    assert talk().send(Open(id="b", replaces="nobody"))


def test_memory_is_bounded_over_a_long_life() -> None:
    conversation = talk()
    for number in range(3 * REMEMBERED):
        id_ = str(number)
        conversation.send(Open(id=id_))
        conversation.send(End(id=id_))
        conversation.receive(done(id_=id_))
        conversation.send(Cancel(id=id_))
    assert len(conversation._done) == len(conversation._may_be_heard) == REMEMBERED
    assert (len(conversation._open), len(conversation._replaced)) == (0, 0)


def test_an_open_that_may_not_be_said_stops_nothing() -> None:
    client = ClientConversation()
    client.send(Open(id="a"))
    client.send(Open(id="b"))
    with pytest.raises(LocalProtocolError):
        client.send(Open(id="b", replaces="a"))
    assert client.send(Text(id="a", text="goes on")) == (Text(id="a", text="goes on"),)
