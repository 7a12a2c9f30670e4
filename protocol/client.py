"""The client's end of a conversation: what may be said now, and whether the server keeps to the order."""

from collections import OrderedDict, deque
from typing import assert_never

from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.messages import (
    Bye,
    Cancel,
    CancelAll,
    ClientMessage,
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

REMEMBERED = 1024
"""Finished utterances whose ids are still known, so that a late word about one is no fault."""


class _Utterance:
    __slots__ = ("joiner", "order")

    def __init__(self, opened: Open, predecessor: UtteranceOrder | None) -> None:
        self.order = UtteranceOrder(opened, RemoteProtocolError, predecessor)
        self.joiner = SurrogateJoiner()


class ClientConversation:
    """Pure: no socket, no clock. Remembers what is open and the last REMEMBERED that were."""

    def __init__(self) -> None:
        self.hello: Hello | None = None
        self._open: dict[str, _Utterance] = {}
        self._replaced: dict[str, deque[UtteranceOrder]] = {}
        """Those whose id has been opened again by a `replaces` of itself, before their `done`."""
        self._done: OrderedDict[str, UtteranceOrder] = OrderedDict()
        self._may_be_heard: OrderedDict[str, UtteranceOrder] = OrderedDict()
        """Complete ones that were stopped: a `heard` may come."""

    @property
    def open_ids(self) -> tuple[str, ...]:
        """Those without a `done`, stopped ones too."""
        return tuple(self._open)

    # What the client says -------------------------------------------------------------------------------------

    def send(self, message: ClientMessage) -> tuple[ClientMessage, ...]:
        """What goes out for it, nothing if it has been overtaken. Raises LocalProtocolError.

        Half a character at an increment's end is held back and goes out with the next, or before `end` and
        `flush`.
        """
        match message:
            case Open():
                return self._send_open(message)
            case Text():
                return self._send_text(message)
            case Flush() | End():
                return self._send_mark(message)
            case Cancel():
                return (message,) if self._stop(message.id, "cancelled") else ()
            case CancelAll():
                for id_ in (*self._open, *self._done):
                    self._stop(id_, "cancelled")
                return (message,)
            case Played():
                utterance = self._utterance(message.id)
                return () if utterance is None or utterance.order.verbs else (message,)
            case Ping():
                return (message,)
            case _:
                assert_never(message)

    def _utterance(self, id: str) -> _Utterance | None:  # noqa: A002 - the wire's name
        utterance = self._open.get(id)
        if utterance is None and id not in self._done:
            raise LocalProtocolError(f"{id!r} was never opened")
        return utterance

    def _send_open(self, message: Open) -> tuple[ClientMessage, ...]:
        if message.id in self._open and message.replaces != message.id:
            raise LocalProtocolError(f"{message.id!r} is open until its done")
        predecessor = None
        if message.replaces is not None and message.replaces in (self._open.keys() | self._done.keys()):
            replaced = self._open.get(message.replaces)
            self._stop(message.replaces, "replaced")
            if replaced is not None:
                predecessor = replaced.order
        if message.id in self._open:
            self._replaced.setdefault(message.id, deque()).append(self._open.pop(message.id).order)
        self._done.pop(message.id, None)
        self._open[message.id] = _Utterance(message, predecessor)
        return (message,)

    def _send_text(self, message: Text) -> tuple[ClientMessage, ...]:
        utterance = self._utterance(message.id)
        if utterance is None or utterance.order.verbs:
            return ()
        if utterance.order.ended:
            raise LocalProtocolError(f"text for {message.id!r} after its end")
        if self.hello is not None and len(message.text) > self.hello.limits.text_chars:
            raise LocalProtocolError(f"an increment has at most {self.hello.limits.text_chars} characters")
        text = utterance.joiner.feed(message.text)
        if text is message.text:
            return (message,)
        return (Text(id=message.id, text=text),) if text else ()

    def _send_mark(self, message: Flush | End) -> tuple[ClientMessage, ...]:
        utterance = self._utterance(message.id)
        if utterance is None or utterance.order.verbs:
            return ()
        if utterance.order.ended:
            raise LocalProtocolError(f"{message.id!r} has been ended")
        if isinstance(message, Flush):
            utterance.order.flush(message.mark)
        else:
            utterance.order.ended = True
        tail = utterance.joiner.finish()
        return (Text(id=message.id, text=tail), message) if tail else (message,)

    def _stop(self, id: str, verb: Verb) -> bool:  # noqa: A002 - the wire's name
        """Whether the server should be told."""
        utterance = self._utterance(id)
        if utterance is not None:
            first = not utterance.order.verbs
            utterance.order.stop(verb)
            utterance.order.owes = "done"
            return first
        order = self._done[id]
        if not order.complete or order.verbs:
            return False
        order.stop(verb)
        self._expect_heard(id, order)
        return True

    def _expect_heard(self, id: str, order: UtteranceOrder) -> None:  # noqa: A002 - the wire's name
        self._may_be_heard[id] = order
        if len(self._may_be_heard) > REMEMBERED:
            self._may_be_heard.popitem(last=False)

    # What the server says -------------------------------------------------------------------------------------

    def receive(self, message: ServerMessage) -> bool:
        """Whether it is still wanted; False: it belongs to what this end has stopped. Raises RemoteProtocolError."""
        match message:
            case Hello():
                if self.hello is not None:
                    raise RemoteProtocolError("hello came twice")
                self.hello = message
                return True
            case _ if self.hello is None:
                raise RemoteProtocolError("hello comes first")
            case Pong() | Bye():
                return True
            case Error():
                return message.id is None or self._receive_step(message.id, message)
            case Heard():
                return self._receive_heard(message)
            case _:
                return self._receive_step(message.id, message)

    def _receive_heard(self, message: Heard) -> bool:
        order = self._may_be_heard.pop(message.id, None)
        if order is None:
            raise RemoteProtocolError(f"heard of {message.id!r} that wasn't stopped after it was complete")
        order.advance(message)
        return True

    def _receive_step(self, id: str, message: UtteranceMessage) -> bool:  # noqa: A002 - the wire's name
        earlier = self._replaced.get(id)
        if earlier:
            order = earlier[0]
        elif id in self._open:
            order = self._open[id].order
        else:
            raise RemoteProtocolError(f"{type(message).__name__} of {id!r} that isn't open")
        order.advance(message, words_anywhere=True)
        if order.state is not State.DONE:
            return not order.verbs or isinstance(message, Error)
        if order.complete and order.verbs:
            self._expect_heard(id, order)
        if earlier:
            earlier.popleft()
            if not earlier:
                del self._replaced[id]
        else:
            del self._open[id]
            self._remember(id, order)
        return True

    def _remember(self, id: str, order: UtteranceOrder) -> None:  # noqa: A002 - the wire's name
        self._done[id] = order
        if len(self._done) > REMEMBERED:
            self._done.popitem(last=False)
