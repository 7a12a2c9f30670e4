"""Engines that go wrong in a process of their own."""

import errno
import os
import resource
import weakref
from collections.abc import Callable

import numpy as np
import psutil

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


def _take_more_than_there_is() -> None:
    """As on a machine with little memory left: a limit of this process alone."""
    limit_bytes = psutil.Process().memory_info().vms + (200 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))
    np.ones(1 << 30, np.uint8)


class HungryModel(ToneModel):
    """Takes too much for a text with "huge" in it."""

    def start(self, request: Request, prompt: TonePrompt | None) -> ToneStream:
        if "huge" in request.text:
            _take_more_than_there_is()
        return super().start(request, prompt)


class HungryEngine(ToneEngine):
    def load(self, source: Source, device: str) -> ToneModel:
        return HungryModel(ToneSettings(), lambda _: None)


def _raise(error: Exception) -> Callable[[], object]:
    def fail() -> object:
        raise error

    return fail


crashes = FailsToLoad(lambda: os._exit(7))
out_of_memory = FailsToLoad(_take_more_than_there_is)
hungry = HungryEngine()
full_disk = FailsToLoad(_raise(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
corrupt = FailsToLoad(_raise(ValueError("weights.safetensors is not a checkpoint")))
wrong_revision = FailsToLoad(_raise(EngineUnavailable("the hub has no revision 'v9' of it")))
talkative = FailsToLoad(lambda: os.write(1, b"loading the weights\n"))
counting = CountingEngine()
