"""One utterance after the other over one light connection, with the time of everything that comes."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from protocol.codec import MSGPACK
from protocol.messages import Audio, Cancel, ClientMessage, Done, End, Open, Segment, ServerMessage, Text
from saystream.load.link import Link, frame

_ID = "a"
_PATIENCE_S = 30


@dataclass(slots=True)
class Heard:
    """Times are the loop's, in seconds."""

    sent_s: list[float] = field(default_factory=list)
    """Of each increment, and of `end`."""
    first_audio_s: float | None = None
    last_audio_s: float | None = None
    segments: list[Segment] = field(default_factory=list)
    done: Done | None = None
    done_s: float = 0.0


class Talk:
    def __init__(self, url: str) -> None:
        self.link = Link(url, None)
        self.link.on_message = self._receive
        self._heard = Heard()
        self._over = asyncio.Event()
        self._spoke = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    async def __aenter__(self) -> Self:
        await self.link.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.link.abort()

    async def speak(
        self, increments: Sequence[str], tokens_per_s: float | None = None, **fields: Any
    ) -> Heard:
        """To its `done`; the increments at once, or at a rate."""
        await self.begin(increments, tokens_per_s, **fields)
        return await self.finish()

    async def begin(
        self,
        increments: Sequence[str],
        tokens_per_s: float | None = None,
        *,
        until_spoke: bool = False,
        **fields: Any,
    ) -> None:
        """`until_spoke`: no more text once the first sound has come, and no `end`."""
        self._heard, self._over, self._spoke = Heard(), asyncio.Event(), asyncio.Event()
        self._send(Open(id=_ID, **fields))
        due_s = self._loop.time()
        for increment in increments:
            if tokens_per_s is not None:
                due_s += 1 / tokens_per_s
                await asyncio.sleep(due_s - self._loop.time())
            if until_spoke and self._spoke.is_set():
                return
            self._send(Text(id=_ID, text=increment))
            self._heard.sent_s.append(self._loop.time())
        self._send(End(id=_ID))
        self._heard.sent_s.append(self._loop.time())

    async def spoke(self) -> None:
        async with asyncio.timeout(_PATIENCE_S):
            await self._spoke.wait()

    async def cancel(self) -> float:
        """How long its `done` took, in seconds."""
        begin_s = self._loop.time()
        self._send(Cancel(id=_ID))
        return (await self.finish()).done_s - begin_s

    async def finish(self) -> Heard:
        async with asyncio.timeout(_PATIENCE_S):
            await self._over.wait()
        return self._heard

    def _send(self, message: ClientMessage) -> None:
        data = MSGPACK.encode_client(message)
        assert isinstance(data, bytes)
        self.link.send(frame(data))

    def _receive(self, data: bytes) -> None:
        now_s = self._loop.time()
        message: ServerMessage = MSGPACK.decode_server(data)
        match message:
            case Audio():
                if self._heard.first_audio_s is None:
                    self._heard.first_audio_s = now_s
                    self._spoke.set()
                self._heard.last_audio_s = now_s
            case Segment():
                self._heard.segments.append(message)
            case Done():
                self._heard.done = message
                self._heard.done_s = now_s
                self._over.set()
            case _:
                pass
