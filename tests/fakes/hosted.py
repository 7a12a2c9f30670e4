"""Engines that go wrong in a process of their own."""

import errno
import os
import weakref
from collections.abc import Callable

from engines.contract import EngineUnavailable, Request, Source
from engines.tone import ToneEngine, ToneModel, TonePrompt, ToneStream
from engines.tone_settings import ToneSettings


class FailsToLoad(ToneEngine):
    def __init__(self, fail: Callable[[], object]) -> None:
        super().__init__()
        self._fail = fail

    def load(self, source: Source, device: str) -> ToneModel:
        self._fail()
        return super().load(source, device)


class Counting(ToneModel):
    """Tells how many of its streams somebody still holds, in the place of its memory."""

    def __init__(self) -> None:
        super().__init__(ToneSettings(), lambda _: None)
        self._alive: weakref.WeakSet[_Watched] = weakref.WeakSet()

    def start(self, request: Request, prompt: TonePrompt | None) -> ToneStream:
        plain = super().start(request, prompt)
        watched = _Watched(plain)
        self._alive.add(watched)
        return watched  # type: ignore[return-value]

    def close(self, stream: ToneStream) -> None:
        super().close(stream.plain if isinstance(stream, _Watched) else stream)

    def peak_bytes(self) -> int:
        return len(self._alive)


class _Watched:
    def __init__(self, plain: ToneStream) -> None:
        self.plain = plain


class CountingEngine(ToneEngine):
    def load(self, source: Source, device: str) -> ToneModel:
        return Counting()


def _raise(error: Exception) -> Callable[[], object]:
    def fail() -> object:
        raise error

    return fail


crashes = FailsToLoad(lambda: os._exit(7))
out_of_memory = FailsToLoad(_raise(MemoryError("8 GB asked for")))
full_disk = FailsToLoad(_raise(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
corrupt = FailsToLoad(_raise(ValueError("weights.safetensors is not a checkpoint")))
wrong_revision = FailsToLoad(_raise(EngineUnavailable("the hub has no revision 'v9' of it")))
talkative = FailsToLoad(lambda: os.write(1, b"loading the weights\n"))
counting = CountingEngine()
