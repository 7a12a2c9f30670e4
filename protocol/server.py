"""The server's end of a conversation: what a client's message means, and whether an answer is in order."""

import math
from collections import deque
from typing import Literal, assert_never

from protocol.errors import BadMessage, LocalProtocolError, make_error, make_refusal
from protocol.limits import BAD_MESSAGES_IN_A_ROW, PLAYED_PER_S, Limits
from protocol.messages import (
    Bye,
    Cancel,
    CancelAll,
    ClientMessage,
    Done,
    End,
    Error,
    Flush,
    Heard,
    Hello,
    Open,
    Ping,
    Played,
    Pong,
    ServerMessage,
    Text,
)
from protocol.order import State, UtteranceMessage, UtteranceOrder, Verb
from protocol.surrogates import SurrogateJoiner
from protocol.verdict import Apply, Close, Fail, Ignore, Refuse, Verdict

UNDECODABLE_CLOSE = 1007
POLICY_CLOSE = 1008


class _Utterance:
    """One that takes the client's messages."""

    __slots__ = ("_last_report_s", "_paused", "_reports", "chars", "joiner", "order")

    def __init__(self, order: UtteranceOrder, now_s: float) -> None:
        self.order = order
        self.joiner = SurrogateJoiner()
        self.chars = 0
        self._reports = float(PLAYED_PER_S)
        """How many more can be taken at `_last_report_s`."""
        self._last_report_s = now_s
        self._paused = False

    def takes_report(self, report: Played, now_s: float) -> bool:
        """Whether it isn't one of too many: a later one, or real time, says the same soon."""
        refilled = self._reports + (now_s - self._last_report_s) * PLAYED_PER_S
        self._reports = min(refilled, float(PLAYED_PER_S))
        self._last_report_s = now_s
        paused = report.state == "paused"
        if self._reports < 1 and paused == self._paused:
            return False
        self._reports = max(self._reports - 1, 0.0)
        self._paused = paused
        return True


class ServerConversation:
    """Pure: no socket, no clock. Its memory is bounded by the limits.

    An id is *open* from its `open` until its `done` is certain: sent, or owed after a cancel, a replacement or a
    failure. What is owed for an id is sent before anything of a new utterance with that id.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: dict[str, _Utterance] = {}
        self._owed: dict[str, deque[UtteranceOrder]] = {}
        self._owed_count = 0
        self._receipts: dict[str, tuple[float, UtteranceOrder]] = {}
        """When each is over; the first is the oldest."""
        self._bad_in_a_row = 0
        self._greeted = False

    @property
    def open_ids(self) -> tuple[str, ...]:
        return tuple(self._open)

    # What the client says -------------------------------------------------------------------------------------

    def receive(self, message: ClientMessage, now_s: float) -> Verdict:
        """A decoded message; its cancels are done here, so that later messages for them are ignored."""
        self._bad_in_a_row = 0
        match message:
            case Text():
                return self._text(message)
            case Played():
                playing = self._open.get(message.id)
                taken = playing is not None and playing.takes_report(message, now_s)
                return Apply(message) if taken else Ignore()
            case Open():
                return self._bounded(self._opened(message, now_s))
            case Flush():
                return self._flush(message)
            case End():
                return self._end(message)
            case Cancel():
                cancels, receipts = self._stop(message.id, "cancelled", now_s)
                return Apply(message, cancels, receipts) if cancels or receipts else Ignore()
            case CancelAll():
                return self._cancel_all(message, now_s)
            case Ping():
                return Apply(message)
            case _:
                assert_never(message)

    def receive_bad(self, error: BadMessage, now_s: float) -> Verdict:
        """What the decoder raised."""
        if error.type == "open" and error.id is not None:
            return self._bounded(self._opened_badly(error, error.id, now_s))
        open_id = error.id if error.id in self._open else None
        answer = make_error(error.code, error.message, id=open_id, param=error.param, value=error.value)
        if open_id is not None:
            return self._fail(open_id, answer)
        if error.code == "message_too_long":
            return Refuse((answer,))
        self._bad_in_a_row += 1
        if self._bad_in_a_row < BAD_MESSAGES_IN_A_ROW:
            return Refuse((answer,))
        code = UNDECODABLE_CLOSE if error.undecodable else POLICY_CLOSE
        return Close(code, "too many bad messages in a row", (answer,))

    def _text(self, message: Text) -> Verdict:
        utterance = self._open.get(message.id)
        if utterance is None:
            return Ignore()
        if utterance.order.ended and message.text:
            return self._fail(
                message.id, make_error("bad_message", "text after end", id=message.id, param="text")
            )
        text = utterance.joiner.feed(message.text)
        utterance.chars += len(text)
        limits = self._limits
        for chars, limit, what in (
            (len(text), limits.text_chars, "an increment"),
            (utterance.chars, limits.total_chars, "an utterance"),
        ):
            if chars > limit:
                fault = f"{what} has at most {limit} characters"
                error = make_error("text_too_long", fault, id=message.id, param="text", value=limit)
                return self._fail(message.id, error)
        return Apply(message if text is message.text else Text(id=message.id, text=text))

    def _flush(self, message: Flush) -> Verdict:
        utterance = self._open.get(message.id)
        if utterance is None or utterance.order.ended:
            return Ignore()
        if utterance.order.pending_flushes >= self._limits.pending_flushes:
            fault = "too many flushes are waiting for their text to be spoken"
            return self._fail(message.id, make_error("rate_limited", fault, id=message.id))
        utterance.order.flush(message.mark)
        return self._apply_with_tail(message, utterance)

    def _end(self, message: End) -> Verdict:
        utterance = self._open.get(message.id)
        if utterance is None or utterance.order.ended:
            return Ignore()
        utterance.order.ended = True
        return self._apply_with_tail(message, utterance)

    def _apply_with_tail(self, message: Flush | End, utterance: _Utterance) -> Apply:
        tail = utterance.joiner.finish()
        utterance.chars += len(tail)
        return Apply(message, text_before=tail)

    def _cancel_all(self, message: CancelAll, now_s: float) -> Verdict:
        cancels: tuple[str, ...] = ()
        receipts: tuple[str, ...] = ()
        for id_ in (*self._open, *self._receipts):
            stopped, answered = self._stop(id_, "cancelled", now_s)
            cancels += stopped
            receipts += answered
        return Apply(message, cancels, receipts) if cancels or receipts else Ignore()

    def _opened(self, message: Open, now_s: float) -> Verdict:
        cancels, receipts, predecessor = self._replace(message.replaces, now_s)
        if message.id in self._open:
            return Refuse(_duplicate(message.id), cancels, receipts, message.replaced_played_ms)
        self._receipts.pop(message.id, None)
        order = UtteranceOrder(message, LocalProtocolError, predecessor)
        if len(self._open) >= self._limits.utterances:
            fault = f"a connection has at most {self._limits.utterances} open"
            error = make_error("too_many_utterances", fault, id=message.id, value=self._limits.utterances)
            self._owe(message.id, order, "done")
            return Refuse(make_refusal(error, message.tag), cancels, receipts, message.replaced_played_ms)
        self._open[message.id] = _Utterance(order, now_s)
        return Apply(message, cancels, receipts)

    def _opened_badly(self, error: BadMessage, id: str, now_s: float) -> Verdict:  # noqa: A002 - the wire's name
        known = error.refused_open
        cancels, receipts, predecessor = self._replace(known.replaces if known else None, now_s)
        played_ms = known.replaced_played_ms if known else None
        if id in self._open:
            return Refuse(_duplicate(id), cancels, receipts, played_ms)
        self._receipts.pop(id, None)
        self._owe(id, UtteranceOrder(Open(id=id), LocalProtocolError, predecessor), "done")
        answer = make_error(error.code, error.message, id=id, param=error.param, value=error.value)
        return Refuse(make_refusal(answer, known.tag if known else None), cancels, receipts, played_ms)

    def _replace(
        self, replaces: str | None, now_s: float
    ) -> tuple[tuple[str, ...], tuple[str, ...], UtteranceOrder | None]:
        if replaces is None:
            return (), (), None
        cancels, receipts = self._stop(replaces, "replaced", now_s)
        predecessor = self._owed[replaces][-1] if cancels or receipts else None
        return cancels, receipts, predecessor

    def _stop(
        self,
        id: str,  # noqa: A002 - the wire's name
        verb: Verb,
        now_s: float,
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if id in self._open:
            order = self._open.pop(id).order
            order.stop(verb)
            self._owe(id, order, "done")
            return (id,), ()
        if id in self._receipts:
            expiry_s, order = self._receipts.pop(id)
            if now_s < expiry_s:
                self._owe(id, order, "heard")
                return (), (id,)
        return (), ()

    def _fail(self, id: str, error: Error) -> Fail:  # noqa: A002 - the wire's name
        self._owe(id, self._open.pop(id).order, "done")
        return Fail(id, error)

    def _owe(self, id: str, order: UtteranceOrder, what: Literal["done", "heard"]) -> None:  # noqa: A002 - the wire's name
        order.owes = what
        self._owed.setdefault(id, deque()).append(order)
        self._owed_count += 1

    def _bounded(self, verdict: Verdict) -> Verdict:
        if self._owed_count > self._limits.unsent_ends:
            return Close(POLICY_CLOSE, "answers aren't read")
        return verdict

    # What the server says -------------------------------------------------------------------------------------

    def send(self, message: ServerMessage, now_s: float) -> None:
        """Check that the message may go out now, just before it does. Raises LocalProtocolError."""
        match message:
            case Hello():
                if self._greeted:
                    raise LocalProtocolError("hello comes once")
                self._greeted = True
                return
            case _ if not self._greeted:
                raise LocalProtocolError("hello comes first")
            case Pong() | Bye():
                return
            case Error():
                if message.id is None:
                    return
                id_ = message.id
            case _:
                id_ = message.id
        owed = self._owed.get(id_)
        if owed is not None:
            self._send_owed(id_, owed, message)
            return
        utterance = self._open.get(id_)
        if utterance is None:
            raise LocalProtocolError(f"{id_!r} isn't open: {type(message).__name__}")
        order = utterance.order
        order.advance(message)
        if order.state is State.FAILED:
            del self._open[id_]
            self._owe(id_, order, "done")
        elif order.state is State.DONE:
            del self._open[id_]
            if order.complete:
                self._receipts[id_] = (now_s + self._limits.receipt_s, order)

    def _send_owed(self, id: str, owed: deque[UtteranceOrder], message: UtteranceMessage) -> None:  # noqa: A002 - the wire's name
        order = owed[0]
        if not isinstance(message, Error | Done | Heard):
            raise LocalProtocolError(f"{id!r} owes its {order.owes}, not {type(message).__name__}")
        if order.verbs and isinstance(message, Done) and message.reason == "complete":
            raise LocalProtocolError(f"{id!r} was stopped before it was complete")
        order.advance(message)
        if order.owes is None:
            owed.popleft()
            self._owed_count -= 1
            if not owed:
                del self._owed[id]

    # Time ---------------------------------------------------------------------------------------------------

    @property
    def next_expiry_s(self) -> float | None:
        """When `expire` next has something to do; None: as things are, never."""
        if len(self._receipts) > self._limits.receipts:
            return -math.inf
        return next((expiry_s for expiry_s, _ in self._receipts.values()), None)

    def expire(self, now_s: float) -> tuple[str, ...]:
        """Forget finished utterances whose receipt time is over (or that are too many); their ids."""
        over = []
        while self._receipts:
            id_, (expiry_s, _) = next(iter(self._receipts.items()))
            if expiry_s > now_s and len(self._receipts) <= self._limits.receipts:
                break
            del self._receipts[id_]
            over.append(id_)
        return tuple(over)


def _duplicate(id: str) -> tuple[Error]:  # noqa: A002 - the wire's name
    return (make_error("duplicate_id", "that id is open", param="id", value=id),)
