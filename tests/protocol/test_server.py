"""The rules of the wire page, from the server's end."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from protocol.codec import JSON, MSGPACK
from protocol.conversation import Apply, Close, Fail, Ignore, Refuse, ServerConversation, Verdict
from protocol.errors import BadMessage, LocalProtocolError, RefusedOpen, make_error
from protocol.limits import Limits
from protocol.messages import (
    Bye,
    Cancel,
    CancelAll,
    ClientMessage,
    Done,
    End,
    Error,
    Flush,
    Open,
    Ping,
    Played,
    Pong,
    ServerMessage,
    Text,
)
from tests.protocol.examples import audio, done, failure, flushed, heard, hello, segment, started

LIMITS = Limits(utterances=3, text_chars=10, total_chars=25, receipt_s=60, pending_flushes=2, receipts=3)


class Talk:
    """A conversation and its time."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.conversation = ServerConversation(limits)
        self.now_s = 100.0
        self.say(hello(limits))

    def hear(self, *messages: ClientMessage) -> Verdict:
        """What came of the last."""
        verdicts = [self.conversation.receive(message, self.now_s) for message in messages]
        return verdicts[-1]

    def hear_bad(self, **fields: Any) -> Verdict:
        error = BadMessage(fields.pop("code", "bad_message"), "wrong", **fields)
        return self.conversation.receive_bad(error, self.now_s)

    def say(self, *messages: ServerMessage) -> None:
        for message in messages:
            self.conversation.send(message, self.now_s)

    def complete(self, id_: str = "a") -> None:
        self.hear(Open(id=id_), End(id=id_))
        self.say(done(id_=id_))


def codes(messages: Iterable[ServerMessage]) -> list[tuple[str, str | None]]:
    """(code or reason, id) of each."""
    return [
        (message.code, message.id) if isinstance(message, Error) else (message.reason, message.id)
        for message in messages
        if isinstance(message, Error | Done)
    ]


def refused(verdict: Verdict) -> list[tuple[str, str | None]]:
    assert isinstance(verdict, Refuse)
    return codes(verdict.messages)


# Ids that aren't open -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message", [Text(id="a", text="x"), Flush(id="a"), End(id="a"), Played(id="a", ms=1), Cancel(id="a")]
)
@pytest.mark.parametrize("before", ["never opened", "complete and its receipt over", "cancelled", "failed"])
def test_a_word_about_an_id_that_isnt_open_is_ignored(message: ClientMessage, before: str) -> None:
    talk = Talk()
    match before:
        case "complete and its receipt over":
            talk.complete()
            talk.now_s += 61
        case "cancelled":
            talk.hear(Open(id="a"), Cancel(id="a"))
        case "failed":
            talk.hear(Open(id="a"))
            talk.say(failure())
    assert talk.hear(message) == Ignore()
    assert talk.conversation.open_ids == ()


def test_after_complete_only_a_cancel_is_answered() -> None:
    talk = Talk()
    talk.complete()
    for message in (Text(id="a", text="x"), Flush(id="a"), End(id="a"), Played(id="a", ms=1)):
        assert talk.hear(message) == Ignore()
    assert talk.hear(Cancel(id="a")) == Apply(Cancel(id="a"), receipts=("a",))


def test_words_for_an_open_id_are_applied() -> None:
    talk = Talk()
    for message in (
        Open(id="a"),
        Text(id="a", text="x"),
        Flush(id="a"),
        Played(id="a", ms=1),
        End(id="a"),
        Ping(t=1),
    ):
        assert talk.hear(message) == Apply(message)
    assert talk.conversation.open_ids == ("a",)


# open -----------------------------------------------------------------------------------------------------------


def test_an_open_id_cant_be_opened_and_isnt_touched() -> None:
    talk = Talk()
    verdict = talk.hear(Open(id="a"), Open(id="a"))
    assert refused(verdict) == [("duplicate_id", None)]
    assert isinstance(verdict, Refuse)
    error = verdict.messages[0]
    assert isinstance(error, Error)
    assert (error.param, error.value) == ("id", "a")
    talk.say(error)
    assert talk.hear(Text(id="a", text="x")) == Apply(Text(id="a", text="x"))


@pytest.mark.parametrize("reason", ["complete", "cancelled", "failed"])
def test_an_id_can_be_used_again_after_its_done(reason: str) -> None:
    talk = Talk()
    talk.hear(Open(id="a"))
    match reason:
        case "complete":
            talk.hear(End(id="a"))
            talk.say(done())
        case "cancelled":
            talk.hear(Cancel(id="a"))
            talk.say(done("cancelled"))
        case _:
            talk.say(failure(), done("failed"))
    assert talk.hear(Open(id="a")) == Apply(Open(id="a"))


def test_too_many_are_refused_with_one_done() -> None:
    talk = Talk()
    verdict = talk.hear(Open(id="a"), Open(id="b"), Open(id="c"), Open(id="d", tag="t"))
    assert refused(verdict) == [("too_many_utterances", "d"), ("failed", "d")]
    assert isinstance(verdict, Refuse)
    assert isinstance(verdict.messages[-1], Done)
    assert verdict.messages[-1].tag == "t"
    talk.say(*verdict.messages)
    assert talk.conversation.open_ids == ("a", "b", "c")
    assert talk.hear(Text(id="d", text="x")) == Ignore()


def test_a_replacement_fits_where_another_doesnt() -> None:
    talk = Talk()
    talk.hear(Open(id="a"), Open(id="b"), Open(id="c"))
    assert isinstance(talk.hear(Open(id="d", replaces="b")), Apply)


def test_a_wrong_open_is_refused_with_one_done() -> None:
    talk = Talk()
    verdict = talk.hear_bad(
        code="invalid_option", id="a", type="open", param="speed", refused_open=RefusedOpen("t")
    )
    assert refused(verdict) == [("invalid_option", "a"), ("failed", "a")]
    assert isinstance(verdict, Refuse)
    talk.say(*verdict.messages)
    assert talk.conversation.open_ids == ()
    with pytest.raises(LocalProtocolError):
        talk.say(done("failed"))


def test_a_wrong_open_of_an_open_id_doesnt_touch_it() -> None:
    talk = Talk()
    talk.hear(Open(id="a"))
    assert refused(talk.hear_bad(id="a", type="open", param="speed")) == [("duplicate_id", None)]
    assert talk.conversation.open_ids == ("a",)


# replaces -------------------------------------------------------------------------------------------------------


def test_a_replacement_stops_the_old_one_first() -> None:
    talk = Talk()
    message = Open(id="b", replaces="a")
    assert talk.hear(Open(id="a"), message) == Apply(message, cancels=("a",))
    with pytest.raises(LocalProtocolError):
        talk.say(started("b"))
    talk.say(done("replaced"), started("b"))


def test_a_replacement_may_have_the_same_id() -> None:
    talk = Talk()
    message = Open(id="a", replaces="a")
    assert talk.hear(Open(id="a"), Text(id="a", text="old"), message) == Apply(message, cancels=("a",))
    assert talk.hear(Text(id="a", text="new")) == Apply(Text(id="a", text="new"))
    with pytest.raises(LocalProtocolError):
        talk.say(started("a"))
    talk.say(done("replaced"), started("a"))
    assert talk.conversation.open_ids == ("a",)


def test_replacing_what_is_unknown_has_no_effect() -> None:
    message = Open(id="b", replaces="nobody")
    assert Talk().hear(message) == Apply(message)


def test_replacing_a_complete_one_gives_its_receipt_first() -> None:
    talk = Talk()
    talk.complete()
    message = Open(id="b", replaces="a")
    assert talk.hear(message) == Apply(message, receipts=("a",))
    with pytest.raises(LocalProtocolError):
        talk.say(started("b"))
    talk.say(heard(), started("b"))


def test_a_refused_replacement_still_stops_the_old_one() -> None:
    talk = Talk()
    talk.hear(Open(id="a"), Open(id="b"))
    verdict = talk.hear(Open(id="b", replaces="a", replaced_played_ms=40))
    assert isinstance(verdict, Refuse)
    assert (verdict.cancels, verdict.replaced_played_ms) == (("a",), 40)
    assert codes(verdict.messages) == [("duplicate_id", None)]
    talk.say(done("replaced"), *verdict.messages)

    verdict = talk.hear_bad(id="c", type="open", param="speed", refused_open=RefusedOpen(replaces="b"))
    assert isinstance(verdict, Refuse)
    assert verdict.cancels == ("b",)
    talk.say(done("replaced", id_="b"), *verdict.messages)
    assert talk.conversation.open_ids == ()


def test_the_refusal_waits_for_the_end_of_the_replaced() -> None:
    talk = Talk()
    talk.hear(Open(id="a"))
    verdict = talk.hear_bad(id="c", type="open", refused_open=RefusedOpen(replaces="a"))
    assert isinstance(verdict, Refuse)
    with pytest.raises(LocalProtocolError):
        talk.say(*verdict.messages)


# Text -----------------------------------------------------------------------------------------------------------


def test_too_long_an_increment_fails_its_utterance() -> None:
    talk = Talk()
    talk.hear(Open(id="a"))
    assert talk.hear(Text(id="a", text="x" * 10)) == Apply(Text(id="a", text="x" * 10))
    verdict = talk.hear(Text(id="a", text="x" * 11))
    assert isinstance(verdict, Fail)
    assert (verdict.id, verdict.error.code, verdict.error.id, verdict.error.value) == (
        "a",
        "text_too_long",
        "a",
        10,
    )
    assert talk.conversation.open_ids == ()
    talk.say(verdict.error, done("failed"))


def test_too_long_a_whole_fails_its_utterance() -> None:
    talk = Talk()
    talk.hear(
        Open(id="a"), Text(id="a", text="x" * 10), Text(id="a", text="x" * 10), Text(id="a", text="x" * 5)
    )
    verdict = talk.hear(Text(id="a", text="x"))
    assert isinstance(verdict, Fail)
    assert (verdict.error.code, verdict.error.value) == ("text_too_long", 25)


def test_text_after_the_end_is_never_lost_silently() -> None:
    talk = Talk()
    talk.hear(Open(id="a"), End(id="a"))
    assert talk.hear(Text(id="a", text="")) == Apply(Text(id="a", text=""))
    verdict = talk.hear(Text(id="a", text="x"))
    assert isinstance(verdict, Fail)
    assert (verdict.error.code, verdict.error.param) == ("bad_message", "text")


def test_a_second_end_and_a_late_flush_are_ignored() -> None:
    talk = Talk()
    talk.hear(Open(id="a"), End(id="a"))
    assert talk.hear(End(id="a")) == Ignore()
    assert talk.hear(Flush(id="a", mark="m")) == Ignore()
    talk.say(done())


def test_each_flush_is_answered_once_in_order() -> None:
    talk = Talk()
    talk.hear(Open(id="a"), Flush(id="a", mark="m"), Flush(id="a", mark=2))
    talk.say(flushed(mark="m"), flushed(mark=2))
    with pytest.raises(LocalProtocolError):
        talk.say(flushed(mark=2))


def test_flushes_without_end_are_refused() -> None:
    talk = Talk()
    verdict = talk.hear(Open(id="a"), Flush(id="a"), Flush(id="a"), Flush(id="a"))
    assert isinstance(verdict, Fail)
    assert verdict.error.code == "rate_limited"


def test_a_character_torn_over_two_json_increments_is_one() -> None:
    talk = Talk()
    talk.hear(Open(id="a"))
    first, second = (
        JSON.decode_client(rf'{{"type":"text","id":"a","text":"{half}"}}')
        for half in (r"x\ud83d", r"\ude00y")
    )
    assert talk.hear(first) == Apply(Text(id="a", text="x"))
    assert talk.hear(second) == Apply(Text(id="a", text="😀y"))


@pytest.mark.parametrize("message", [End(id="a"), Flush(id="a")])
def test_half_a_character_is_replaced_where_nothing_may_wait(message: ClientMessage) -> None:
    talk = Talk()
    talk.hear(Open(id="a"), Text(id="a", text="x\ud83d"))
    assert talk.hear(message) == Apply(message, text_before="\ufffd")


# played ---------------------------------------------------------------------------------------------------------


def test_more_than_twenty_reports_a_second_are_merged() -> None:
    talk = Talk()
    talk.hear(Open(id="a"))
    taken = 0
    for number in range(3000):
        talk.now_s += 0.001
        taken += talk.hear(Played(id="a", ms=number)) != Ignore()
    assert 3 * 20 - 1 <= taken <= 4 * 20


def test_a_pause_is_never_merged_away() -> None:
    talk = Talk()
    talk.hear(Open(id="a"))
    for number in range(100):
        talk.hear(Played(id="a", ms=number))
    assert talk.hear(Played(id="a", ms=99)) == Ignore()
    paused = Played(id="a", ms=99, state="paused")
    assert talk.hear(paused) == Apply(paused)
    assert talk.hear(paused) == Ignore()
    resumed = Played(id="a", ms=99)
    assert talk.hear(resumed) == Apply(resumed)


# Stopping -------------------------------------------------------------------------------------------------------


def test_a_cancel_ends_it_at_once() -> None:
    talk = Talk()
    talk.hear(Open(id="a"))
    talk.say(started(), segment(), audio())
    assert talk.hear(Cancel(id="a", played_ms=5)) == Apply(Cancel(id="a", played_ms=5), cancels=("a",))
    with pytest.raises(LocalProtocolError):
        talk.say(audio(1, 480))
    with pytest.raises(LocalProtocolError):
        talk.say(done("complete", samples=480))
    talk.say(done("cancelled", samples=480))
    with pytest.raises(LocalProtocolError):
        talk.say(done("cancelled", samples=480))


def test_a_second_cancel_is_ignored() -> None:
    talk = Talk()
    talk.hear(Open(id="a"), Cancel(id="a"))
    assert talk.hear(Cancel(id="a")) == Ignore()
    talk.say(done("cancelled"))
    assert talk.hear(Cancel(id="a")) == Ignore()


def test_ends_that_are_owed_for_one_id_come_in_turn() -> None:
    talk = Talk()
    talk.hear(Open(id="a"))
    talk.say(started(), segment(), audio())
    talk.hear(Cancel(id="a"), Open(id="a"), Cancel(id="a"), Open(id="a"))
    with pytest.raises(LocalProtocolError):
        talk.say(done("cancelled", samples=0))
    talk.say(done("cancelled", samples=480), done("cancelled", samples=0), started())


def test_the_first_verb_decides_the_reason() -> None:
    talk = Talk()
    talk.hear(Open(id="a"), Cancel(id="a"))
    assert talk.hear(Open(id="b", replaces="a")) == Apply(Open(id="b", replaces="a"))
    with pytest.raises(LocalProtocolError):
        talk.say(done("replaced"))
    talk.say(done("cancelled"))


def test_a_cancel_leaves_the_others_alone() -> None:
    talk = Talk()
    talk.hear(Open(id="a"), Open(id="b"), Cancel(id="a"))
    assert talk.conversation.open_ids == ("b",)


def test_what_has_failed_stays_failed_when_it_is_cancelled() -> None:
    talk = Talk()
    talk.hear(Open(id="a"), Cancel(id="a"))
    talk.say(failure(), done("failed"))


def test_cancel_all_takes_what_is_open_and_what_is_within_its_receipt() -> None:
    talk = Talk()
    talk.complete("a")
    talk.now_s += 30
    talk.complete("b")
    talk.hear(Open(id="c"), Open(id="d"))
    talk.now_s += 30
    assert talk.hear(CancelAll()) == Apply(CancelAll(), cancels=("c", "d"), receipts=("b",))
    talk.say(heard("b"), done("cancelled", id_="d"), done("cancelled", id_="c"))
    assert talk.hear(CancelAll()) == Ignore()


# Receipts -------------------------------------------------------------------------------------------------------


def test_a_complete_one_is_answered_by_exactly_one_heard() -> None:
    talk = Talk()
    talk.complete()
    talk.now_s += 59
    assert talk.hear(Cancel(id="a", played_ms=900)) == Apply(Cancel(id="a", played_ms=900), receipts=("a",))
    talk.say(heard())
    assert talk.hear(Cancel(id="a")) == Ignore()
    with pytest.raises(LocalProtocolError):
        talk.say(heard())


def test_heard_comes_only_when_asked_for() -> None:
    talk = Talk()
    talk.complete()
    with pytest.raises(LocalProtocolError):
        talk.say(heard())


def test_after_the_receipt_time_a_cancel_is_ignored() -> None:
    talk = Talk()
    talk.complete()
    talk.now_s += 60
    assert talk.hear(Cancel(id="a")) == Ignore()


@pytest.mark.parametrize("again", ["opened", "refused"])
def test_an_id_opened_again_means_the_new_one(again: str) -> None:
    talk = Talk()
    talk.complete()
    if again == "refused":
        verdict = talk.hear_bad(id="a", type="open")
        assert isinstance(verdict, Refuse)
        talk.say(*verdict.messages)
        assert talk.hear(Cancel(id="a")) == Ignore()
    else:
        talk.hear(Open(id="a"))
        assert talk.hear(Cancel(id="a")) == Apply(Cancel(id="a"), cancels=("a",))


def test_a_receipt_is_gone_once_its_id_is_open_again() -> None:
    talk = Talk()
    talk.complete()
    talk.hear(Open(id="a"))
    assert talk.hear(CancelAll()) == Apply(CancelAll(), cancels=("a",))
    talk.say(done("cancelled"))
    assert talk.hear(Cancel(id="a")) == Ignore()


def test_receipts_are_forgotten_in_time() -> None:
    talk = Talk()
    assert talk.conversation.next_expiry_s is None
    talk.complete("a")
    talk.now_s += 10
    talk.complete("b")
    assert talk.conversation.next_expiry_s == 160
    assert talk.conversation.expire(159.9) == ()
    assert talk.conversation.expire(160) == ("a",)
    assert talk.conversation.next_expiry_s == 170
    assert talk.conversation.expire(1000) == ("b",)
    assert talk.conversation.next_expiry_s is None


def test_the_oldest_of_too_many_receipts_is_forgotten_early() -> None:
    talk = Talk()
    for id_ in "abcd":
        talk.complete(id_)
    due_s = talk.conversation.next_expiry_s
    assert due_s is not None
    assert due_s <= talk.now_s
    assert talk.conversation.expire(talk.now_s) == ("a",)
    assert talk.hear(Cancel(id="b")) == Apply(Cancel(id="b"), receipts=("b",))


@pytest.mark.parametrize("reason", ["cancelled", "failed", "timeout"])
def test_only_a_complete_one_has_a_receipt(reason: str) -> None:
    talk = Talk()
    talk.hear(Open(id="a"))
    if reason == "cancelled":
        talk.hear(Cancel(id="a"))
        talk.say(done("cancelled"))
    else:
        talk.say(failure(), done("timeout" if reason == "timeout" else "failed"))
    assert talk.conversation.next_expiry_s is None


# Bad messages ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type_", ["text", "flush", "end", "cancel", "played"])
def test_a_wrong_message_for_an_open_id_fails_it(type_: str) -> None:
    talk = Talk()
    talk.hear(Open(id="a"), Open(id="b"))
    verdict = talk.hear_bad(id="a", type=type_, param="p")
    assert isinstance(verdict, Fail)
    assert (verdict.id, verdict.error.code, verdict.error.id, verdict.error.param) == (
        "a",
        "bad_message",
        "a",
        "p",
    )
    talk.say(verdict.error, done("failed"))
    assert talk.conversation.open_ids == ("b",)


def test_any_other_bad_message_is_the_connections_own() -> None:
    talk = Talk()
    assert refused(talk.hear_bad()) == [("bad_message", None)]
    assert refused(talk.hear_bad(id="nobody", type="text", param="text")) == [("bad_message", None)]


@pytest.mark.parametrize(("undecodable", "code"), [(True, 1007), (False, 1008)])
def test_the_fifth_bad_message_in_a_row_closes(undecodable: bool, code: int) -> None:
    talk = Talk()
    for _ in range(4):
        assert refused(talk.hear_bad(undecodable=not undecodable)) == [("bad_message", None)]
    verdict = talk.hear_bad(undecodable=undecodable)
    assert isinstance(verdict, Close)
    assert verdict.code == code
    assert codes(verdict.messages) == [("bad_message", None)]


def test_a_good_message_breaks_the_row() -> None:
    talk = Talk()
    for _ in range(10):
        for _ in range(4):
            assert isinstance(talk.hear_bad(), Refuse)
        talk.hear(End(id="nobody"))


def test_refused_opens_and_failures_are_no_part_of_the_row() -> None:
    talk = Talk()
    for _ in range(10):
        verdict = talk.hear_bad(id="a", type="open")
        assert isinstance(verdict, Refuse)
        talk.say(*verdict.messages)


@pytest.mark.parametrize(
    ("type_", "before", "expected"),
    [
        ("text", "open", Fail),
        (None, "open", Fail),
        ("text", "nothing", Refuse),
        ("open", "nothing", Refuse),
    ],
)
def test_too_long_a_message_is_refused_with_the_id_if_it_is_open(
    type_: str | None, before: str, expected: type
) -> None:
    talk = Talk()
    if before == "open":
        talk.hear(Open(id="a"))
    verdict = talk.hear_bad(code="message_too_long", id="a", type=type_)
    assert isinstance(verdict, expected)
    if type_ == "open":
        assert refused(verdict) == [("message_too_long", "a"), ("failed", "a")]
    elif expected is Refuse:
        assert refused(verdict) == [("message_too_long", None)]


def test_too_long_messages_dont_close() -> None:
    talk = Talk()
    for _ in range(10):
        assert isinstance(talk.hear_bad(code="message_too_long"), Refuse)


# The connection -------------------------------------------------------------------------------------------------


def test_hello_comes_first_and_once() -> None:
    conversation = ServerConversation(LIMITS)
    with pytest.raises(LocalProtocolError):
        conversation.send(Pong(), 0)
    conversation.send(hello(), 0)
    with pytest.raises(LocalProtocolError):
        conversation.send(hello(), 0)


def test_what_belongs_to_no_utterance_may_always_be_said() -> None:
    Talk().say(Pong(t=1), Bye(reason="draining"), make_error("rate_limited", "slowly"), Bye(reason="idle"))


@pytest.mark.parametrize("message", [started("x"), audio(id_="x"), done(id_="x"), failure("x"), heard("x")])
def test_nothing_is_said_about_what_isnt_open(message: ServerMessage) -> None:
    with pytest.raises(LocalProtocolError):
        Talk().say(message)


def test_after_complete_nothing_but_heard() -> None:
    talk = Talk()
    talk.complete()
    for message in (done(), flushed(), failure()):
        with pytest.raises(LocalProtocolError):
            talk.say(message)


def test_a_client_who_opens_and_reads_no_answers_is_closed() -> None:
    talk = Talk(replace(LIMITS, unsent_ends=10))
    verdicts = [talk.hear(Open(id="a", replaces="a")) for _ in range(20)]
    assert isinstance(verdicts[10], Apply)
    assert isinstance(verdicts[-1], Close)
    assert verdicts[-1].code == 1008


def test_memory_is_bounded_over_a_long_life() -> None:
    talk = Talk()
    for number in range(1000):
        id_ = str(number)
        talk.complete(id_)
        talk.hear(Open(id=id_ + "c"), Cancel(id=id_ + "c"), Text(id="nobody", text="x"), Cancel(id="nobody"))
        talk.say(done("cancelled", id_=id_ + "c"))
        talk.conversation.expire(talk.now_s)
    conversation = talk.conversation
    assert (len(conversation._open), len(conversation._owed), len(conversation._receipts)) == (0, 0, 3)


@pytest.mark.parametrize("codec", [MSGPACK, JSON], ids=["msgpack", "json"])
def test_what_the_decoder_refuses_the_conversation_answers(codec: Any) -> None:
    """From the bytes to the verdict."""
    talk = Talk()
    data = codec.encode_client(Open(id="a", speed=-1.0, tag="t"))
    with pytest.raises(BadMessage) as caught:
        codec.decode_client(data)
    verdict = talk.conversation.receive_bad(caught.value, talk.now_s)
    assert refused(verdict) == [("invalid_option", "a"), ("failed", "a")]
