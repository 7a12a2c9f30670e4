"""One WebSocket to a server: a reader that never stops, and a courier for what is sent without waiting."""

import asyncio
from collections import OrderedDict
from contextlib import suppress
from typing import assert_never

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from protocol.codec import Codec
from protocol.conversation import ClientConversation
from protocol.errors import BadMessage, RemoteProtocolError
from protocol.messages import (
    Audio,
    Bye,
    Cancel,
    ClientMessage,
    Done,
    Error,
    Flushed,
    Heard,
    HeardText,
    Hello,
    Open,
    Played,
    Pong,
    Queued,
    Segment,
    ServerMessage,
    Started,
    Words,
)
from saystream.errors import ConnectionLost
from saystream.inbox import UtteranceMessage
from saystream.utterance import LineDown, Utterance

_MAX_RECEIPTS = 64
"""Utterances whose receipt is awaited; the oldest is forgotten first."""
_PROTOCOL_ERROR = 1002
_CLOSED = "the client was closed"


class Connection:
    """Lives as long as `run`; belongs to one event loop."""

    def __init__(self, socket: ClientConnection, codec: Codec) -> None:
        self.leaving = False
        """The server has said `bye`: open utterances go on, new ones belong elsewhere."""
        self._socket = socket
        self._codec = codec
        self._conversation = ClientConversation()
        self._hello: Hello | None = None
        self._utterances: dict[str, Utterance] = {}
        self._receipts: OrderedDict[str, Utterance] = OrderedDict()
        self._posted: dict[str, Played | Cancel] = {}
        self._to_post = asyncio.Event()
        self._lost: str | None = None

    @property
    def hello(self) -> Hello:
        if self._hello is None:
            raise LineDown("the server hasn't greeted")
        return self._hello

    @property
    def usable(self) -> bool:
        return self._lost is None and not self.leaving

    async def greet(self) -> None:
        """Wait for `hello`, before `run`. Raises LineDown."""
        await self._read(until_hello=True)
        if self._hello is None:
            raise LineDown(self._lost or "the server didn't greet")

    async def run(self) -> None:
        """Read until the socket ends, in whatever way; every open utterance is lost then."""
        try:
            async with asyncio.TaskGroup() as tasks:
                courier = tasks.create_task(self._carry())
                await self._read()
                courier.cancel()
        finally:
            self._lose(_CLOSED)

    async def close(self) -> None:
        await self._socket.close()

    def abort(self) -> None:
        """Idempotent."""
        self._lose(_CLOSED)
        self._socket.transport.abort()

    # Out ----------------------------------------------------------------------------------------------------

    async def open(self, utterance: Utterance) -> None:
        replaced = utterance.replaces
        if isinstance(replaced, Utterance):
            self.expect_receipt(replaced)
            replaced = replaced.id
        message = Open(id=utterance.id, replaces=replaced, **utterance.fields)
        self._utterances[utterance.id] = utterance
        try:
            await self.send(message)
        except LineDown as down:
            raise ConnectionLost(str(down), HeardText(end_char=0, exact=True, played_ms=0)) from None
        except asyncio.CancelledError:
            self.post(Cancel(id=utterance.id))
            raise

    async def send(self, message: ClientMessage) -> None:
        if self._lost is None:
            try:
                for part in self._conversation.send(message):
                    await self._socket.send(self._codec.encode_client(part))
            except ConnectionClosed as closed:
                self._lose(str(closed))
            else:
                return
        raise LineDown(self._lost)

    def post(self, message: Played | Cancel) -> None:
        if not isinstance(self._posted.get(message.id), Cancel):
            self._posted[message.id] = message
        self._to_post.set()

    def expect_receipt(self, utterance: Utterance) -> None:
        self._receipts[utterance.id] = utterance
        while len(self._receipts) > _MAX_RECEIPTS:
            self._receipts.popitem(last=False)

    async def _carry(self) -> None:
        with suppress(LineDown):
            while True:
                await self._to_post.wait()
                self._to_post.clear()
                while self._posted:
                    utterance_id, message = next(iter(self._posted.items()))
                    del self._posted[utterance_id]
                    if utterance_id in self._utterances:  # else it has ended meanwhile
                        await self.send(message)

    # In -----------------------------------------------------------------------------------------------------

    async def _read(self, *, until_hello: bool = False) -> None:
        try:
            while not (until_hello and self._hello is not None):
                message = self._codec.decode_server(await self._socket.recv())
                if self._conversation.receive(message):
                    self._take(message)
        except ConnectionClosed as closed:
            self._lose(str(closed))
        except (BadMessage, RemoteProtocolError) as fault:
            self._lose(f"the server broke the protocol: {fault}")
            await self._socket.close(_PROTOCOL_ERROR, "protocol broken")

    def _take(self, message: ServerMessage) -> None:
        match message:
            case Hello():
                self._hello = message
            case Bye():
                self.leaving = True
            case Pong() | Error(id=None):
                pass
            case Heard():
                replaced = self._receipts.pop(message.id, None)
                if replaced is not None:
                    replaced.receive(message)
            case Queued() | Started() | Segment() | Words() | Audio() | Flushed() | Error() | Done():
                self._deliver(message)
            case _:
                assert_never(message)

    def _deliver(self, message: UtteranceMessage) -> None:
        utterance = self._utterances.get(message.id or "")
        if utterance is None:
            return
        if isinstance(message, Done):
            del self._utterances[utterance.id]
        utterance.receive(message)

    def _lose(self, reason: str) -> None:
        if self._lost is None:
            self._lost = reason
        utterances = [*self._utterances.values(), *self._receipts.values()]
        self._utterances.clear()
        self._receipts.clear()
        for utterance in utterances:
            utterance.lose(self._lost)
