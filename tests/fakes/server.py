"""A server for client tests: the real conversation and codec, an engine that hums, and faults to order."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from protocol.codec import select_subprotocol
from protocol.conversation import Apply, Close, Fail, Refuse, ServerConversation
from protocol.errors import NOTHING_SPOKEN, BadMessage, make_error, make_refusal
from protocol.limits import Limits
from protocol.messages import (
    Audio,
    Bye,
    ClientMessage,
    Done,
    End,
    Flush,
    Flushed,
    Heard,
    HeardText,
    Hello,
    Open,
    Segment,
    ServerMessage,
    Started,
    Text,
)

RATE_HZ = 8000
SAMPLES_PER_CHAR = 80
MS_PER_CHAR = 1000 * SAMPLES_PER_CHAR / RATE_HZ


@dataclass
class Speech:
    opened: Open
    text: str = ""
    samples: int = 0
    frames: int = 0
    segments: int = 0
    seen: list[ClientMessage] = field(default_factory=list)


@dataclass
class FakeServer:
    """Speaks each increment at once as a segment of SAMPLES_PER_CHAR samples a character, a frame a segment."""

    limits: Limits = field(default_factory=Limits)
    refuse_handshakes: list[tuple[int, bytes, dict[str, str]]] = field(default_factory=list)
    """Answers to the next handshakes, first to last."""
    refuse_voice: str = "nobody"
    cut_at_word: str = "CUT"
    """The socket is cut when this increment comes."""
    nonsense_at_word: str = "NONSENSE"
    fail_at_word: str = "FAIL"
    silent_at_word: str = "SILENT"
    """Nothing more is spoken after it until `end`."""
    requests: list[Request] = field(default_factory=list)
    received: list[ClientMessage] = field(default_factory=list)
    connections: set[ServerConnection] = field(default_factory=set)
    connected: int = 0
    url: str = ""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for messages, connections and their ends."""
        while not condition():
            await self._changed.wait()
            self._changed.clear()

    def change(self) -> None:
        self._changed.set()

    async def say_bye(self) -> None:
        for connection in self.connections:
            codec = select_subprotocol([connection.subprotocol or ""])
            assert codec is not None
            await connection.send(codec.encode_server(Bye(reason="draining", deadline_ms=1000)))

    def received_of(self, kind: type[ClientMessage]) -> list[ClientMessage]:
        return [message for message in self.received if isinstance(message, kind)]


@asynccontextmanager
async def running(server: FakeServer) -> AsyncIterator[FakeServer]:
    async def handshake(_: ServerConnection, request: Request) -> Response | None:
        server.requests.append(request)
        if not server.refuse_handshakes:
            return None
        status, body, headers = server.refuse_handshakes.pop(0)
        return Response(status, HTTPStatus(status).phrase, Headers(headers), body)

    async def handle(connection: ServerConnection) -> None:
        server.connected += 1
        server.connections.add(connection)
        try:
            await _Conversation(server, connection).run()
        except ConnectionClosed:
            pass
        finally:
            server.connections.discard(connection)
            server.change()

    listening: Server
    async with serve(
        handle,
        "127.0.0.1",
        0,
        process_request=handshake,
        subprotocols=["saystream.v1.msgpack", "saystream.v1.json"],  # type: ignore[list-item]
        compression=None,
        close_timeout=1,
    ) as listening:
        server.url = f"ws://127.0.0.1:{next(iter(listening.sockets)).getsockname()[1]}"
        yield server


class _Conversation:
    def __init__(self, server: FakeServer, connection: ServerConnection) -> None:
        codec = select_subprotocol([connection.subprotocol] if connection.subprotocol else [])
        assert codec is not None
        self._codec = codec
        self._server = server
        self._connection = connection
        self._rules = ServerConversation(server.limits)
        self._speeches: dict[str, Speech] = {}

    async def run(self) -> None:
        await self._say(make_hello(self._server.limits))
        async for data in self._connection:
            try:
                message = self._codec.decode_client(data)
            except BadMessage as bad:
                verdict = self._rules.receive_bad(bad, 0)
            else:
                self._server.received.append(message)
                self._server.change()
                verdict = self._rules.receive(message, 0)
            match verdict:
                case Apply():
                    await self._apply(verdict)
                case Refuse(messages=messages):
                    await self._say(*messages)
                case Fail(id=id_, error=error):
                    await self._say(error, self._done(id_, "failed"))
                case Close(code=code):
                    await self._connection.close(code)

    async def _say(self, *messages: ServerMessage) -> None:
        for message in messages:
            self._rules.send(message, 0)
            await self._connection.send(self._codec.encode_server(message))

    async def _apply(self, verdict: Apply) -> None:
        message = verdict.message
        reason = "replaced" if isinstance(message, Open) else "cancelled"
        played_ms = getattr(message, "replaced_played_ms" if reason == "replaced" else "played_ms", None)
        for id_ in verdict.cancels:
            await self._say(self._done(id_, reason, played_ms))
        for id_ in verdict.receipts:
            heard = self._heard(self._speeches[id_], played_ms)
            await self._say(
                Heard(id=id_, end_char=heard.end_char, exact=heard.exact, played_ms=heard.played_ms)
            )
        match message:
            case Open():
                self._speeches[message.id] = Speech(message)
                if message.voice == self._server.refuse_voice:
                    error = make_error("unknown_voice", "no such voice", id=message.id, param="voice")
                    await self._say(*make_refusal(error, message.tag))
            case Text():
                await self._text(self._speeches[message.id], message.text)
            case Flush():
                speech = self._speeches[message.id]
                await self._say(Flushed(id=message.id, mark=message.mark, at_sample=speech.samples))
            case End():
                await self._say(self._done(message.id, "complete"))

    async def _text(self, speech: Speech, text: str) -> None:
        id_ = speech.opened.id
        start_char = len(speech.text)
        speech.text += text
        if text == self._server.cut_at_word:
            self._connection.transport.abort()
        elif text == self._server.nonsense_at_word:
            await self._connection.send(b"\xc1" if not self._codec.text_frames else "nonsense")
        elif text == self._server.fail_at_word:
            await self._say(
                make_error("engine_failed", "the engine broke", id=id_), self._done(id_, "failed")
            )
        elif text != self._server.silent_at_word and text.strip():
            await self._speak(speech, start_char)

    async def _speak(self, speech: Speech, start_char: int) -> None:
        id_ = speech.opened.id
        if speech.frames == 0:
            await self._say(
                Started(
                    id=id_,
                    engine="hum",
                    checkpoint="c",
                    voice="hum",
                    language="en",
                    format="s16le",
                    sample_rate_hz=RATE_HZ,
                    words="none",
                )
            )
        end_char = len(speech.text)
        await self._say(
            Segment(
                id=id_,
                index=speech.segments,
                start_char=start_char,
                end_char=end_char,
                at_sample=speech.samples,
            )
        )
        speech.segments += 1
        for at in range(start_char, end_char, 100):
            samples = SAMPLES_PER_CHAR * (min(at + 100, end_char) - at)
            pcm = hum(speech.samples, samples)
            await self._say(Audio(id=id_, seq=speech.frames, at_sample=speech.samples, pcm=pcm))
            speech.frames += 1
            speech.samples += samples
            await asyncio.sleep(0)

    def _done(self, id_: str, reason: str, played_ms: float | None = None) -> Done:
        speech = self._speeches[id_]
        heard = self._heard(speech, played_ms) if reason in {"cancelled", "replaced"} else None
        return Done(
            id=id_,
            reason=reason,  # type: ignore[arg-type]
            samples=speech.samples,
            chars=len(speech.text),
            stats=NOTHING_SPOKEN,
            tag=speech.opened.tag,
            heard=heard,
        )

    def _heard(self, speech: Speech, played_ms: float | None) -> HeardText:
        sent_ms = 1000 * speech.samples / RATE_HZ
        played_ms = sent_ms if played_ms is None else min(played_ms, sent_ms)
        return HeardText(end_char=int(played_ms / MS_PER_CHAR), exact=False, played_ms=played_ms)


def make_hello(limits: Limits) -> Hello:
    return Hello(
        protocol="saystream.v1",
        server="fake",
        session="s",
        replica="r",
        engine="hum",
        voice="hum",
        sample_rate_hz=RATE_HZ,
        formats=["s16le"],
        limits=limits.wire(),
        load=0,
        features=[],
    )


def hum(at_sample: int, samples: int) -> bytes:
    """Each sample's value is its position, so that a test sees what is lost or doubled."""
    return b"".join(((at_sample + at) % 32768).to_bytes(2, "little") for at in range(samples))
