"""An engine in a process of its own: the same contract, with each call sent to a child over a socket pair."""

import logging
import os
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from engines import downloads
from engines.contract import (
    Chunk,
    CloneMode,
    Engine,
    EngineError,
    EngineUnavailable,
    Facts,
    Fetching,
    Info,
    ModelLost,
    ModelStalled,
    Request,
    Source,
)
from engines.downloads import Download
from engines.hosted_wire import VERSION, Broken, Closed, Wire
from voices.reference import Reference

log = logging.getLogger(__name__)

CHILD = Path(__file__).with_name("hosted_child.py")
HANDSHAKE_S = 60.0
"""For the interpreter and the engine's module, which doesn't import its library."""
UNLOAD_S = 5.0
_EXIT_S = 2.0
_SECRET = frozenset({"SAYSTREAM_KEYS", "SAYSTREAM_KEY"})


class Child:
    """The process and the parent's end of the wire; ends with it, whatever it is doing. For one thread."""

    def __init__(self, target: str, python: str | None) -> None:
        """Raises EngineUnavailable."""
        self.name = target
        self.handshake: dict[str, Any] = {}
        ours, theirs = socket.socketpair()
        self._wire = Wire(ours)
        self._dead: str | None = None
        self._fetching: dict[str, Download] = {}
        command = [python or sys.executable, str(CHILD), str(theirs.fileno()), target]
        try:
            # A session of its own: a terminal's Ctrl-C drains us, and must not end the model first.
            self._process = subprocess.Popen(  # noqa: S603 - the operator names the interpreter
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env=_without_secrets(os.environ),
            )
        except OSError as error:
            ours.close()
            raise EngineUnavailable(f"{command[0]} can't be run: {error.strerror}") from error
        finally:
            theirs.close()
        self._greet()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _greet(self) -> None:
        deadline_s = time.monotonic() + HANDSHAKE_S
        try:
            self.handshake = self._checked(self._wire.receive(deadline_s))
            done, error = self._answer(deadline_s, HANDSHAKE_S)
        except (Closed, Broken, TimeoutError) as fault:
            raise EngineUnavailable(
                f"the process for {self.name} didn't start: {self._ended(fault)}"
            ) from fault
        if not done:
            self.kill()
            raise EngineUnavailable(f"{self.name} can't be imported there: {error}")

    def _checked(self, handshake: Any) -> dict[str, Any]:
        if not isinstance(handshake, dict):
            raise Broken("it greets with something else")
        if handshake.get("wire") != VERSION:
            raise Broken(f"it speaks version {handshake.get('wire')}, not {VERSION}")
        return handshake

    def call(self, name: str, *arguments: Any, timeout_s: float) -> Any:
        """Raises what the engine does there; ModelLost, or ModelStalled past its time, after which it is killed."""
        if self._dead is not None:
            raise ModelLost(self._dead)
        deadline_s = time.monotonic() + timeout_s
        try:
            self._wire.send([name, list(arguments)], deadline_s)
            done, value = self._answer(deadline_s, timeout_s)
        except TimeoutError:
            self.kill()
            self._dead = f"the process of {self.name} didn't answer within {timeout_s:g} s and was ended"
            raise ModelStalled(self._dead) from None
        except (Closed, Broken) as fault:
            self._dead = f"the process of {self.name} is gone: {self._ended(fault)}"
            raise ModelLost(self._dead) from fault
        if done:
            return value
        raise value

    def _answer(self, deadline_s: float, timeout_s: float) -> tuple[bool, Any]:
        """News of a download come before it; each is a sign of life."""
        while True:
            match self._wire.receive(deadline_s):
                case [True, value]:
                    return True, value
                case [False, Exception() as error]:
                    return False, error
                case [None, Download() as news]:
                    deadline_s = time.monotonic() + timeout_s
                    self._fetching[news.file] = news
                    downloads.tell(news)
                case _:
                    raise Broken("it answers with something else")

    def end(self) -> None:
        """Its socket is closed, which ends it; killed if it doesn't within a moment."""
        self._dead = self._dead or f"the process of {self.name} was ended"
        self._wire.close()
        try:
            self._process.wait(_EXIT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        if self._process.poll() is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                log.debug("%s was gone already", self.name)
        self._process.wait()
        self._wire.close()
        for download in self._fetching.values():
            downloads.tell(replace(download, over=True))
        self._fetching.clear()

    def _ended(self, fault: Exception) -> str:
        """Why, once it is. Of one that talks nonsense that says more than how it ended."""
        try:
            if isinstance(fault, Broken):
                return str(fault)
            code = self._process.wait(_EXIT_S if isinstance(fault, Closed) else 0)
        except subprocess.TimeoutExpired:
            return str(fault) or "it didn't answer in time"
        finally:
            self.kill()
        return f"signal {-code}" if code < 0 else f"exit code {code}"


def _without_secrets(variables: Mapping[str, str]) -> dict[str, str]:
    """The server's keys may be in a variable, and an engine's packages have no business with them."""
    return {name: value for name, value in variables.items() if name.upper() not in _SECRET}


class _Handle:
    """Of something that the child holds for as long as somebody has this."""

    __slots__ = ("__weakref__", "number")

    def __init__(self, number: int) -> None:
        self.number = number


class HostedStream(_Handle):
    __slots__ = ()


class HostedPrompt(_Handle):
    __slots__ = ()


H = TypeVar("H", bound=_Handle)


class HostedModel:
    """Loaded in the child. When that dies, each call raises ModelLost; `unload` is always safe."""

    def __init__(self, child: Child, *, step_s: float, slow_s: float) -> None:
        self._child = child
        self._step_s = step_s
        self._slow_s = slow_s
        self._forgotten: deque[int] = deque()
        """Handles that nobody holds any more."""

    @property
    def pid(self) -> int:
        return self._child.pid

    def prepare(self, reference: Reference, mode: CloneMode) -> bytes:
        prepared: bytes = self._call("prepare", reference, mode, timeout_s=self._slow_s)
        return prepared

    def restore(self, prompt: bytes) -> HostedPrompt:
        return self._watched(HostedPrompt(self._call("restore", prompt)))

    def start(self, request: Request, prompt: HostedPrompt | None) -> HostedStream:
        return self._watched(
            HostedStream(self._call("start", request, None if prompt is None else prompt.number))
        )

    def extend(self, stream: HostedStream, text: str, last: bool) -> None:
        self._call("extend", stream.number, text, last)

    def step(self, streams: Sequence[HostedStream]) -> Sequence[Chunk | EngineError]:
        results: list[Chunk | EngineError] = self._call("step", [stream.number for stream in streams])
        return results

    def close(self, stream: HostedStream) -> None:
        self._call("close", stream.number)

    def memory(self) -> Mapping[str, int] | None:
        """What its runtime has in use, keeps, had in use at the most; None: it can't tell."""
        told: dict[str, int] | None = self._call("memory")
        return told

    def peak_bytes(self) -> int:
        peak: int = self._call("peak_bytes")
        return peak

    def unload(self) -> None:
        try:
            self._child.call("unload", timeout_s=UNLOAD_S)
        except ModelLost as error:
            log.debug("unloaded by its end: %s", error)
        finally:
            self._child.end()

    def _call(self, name: str, *arguments: Any, timeout_s: float | None = None) -> Any:
        if self._forgotten:
            # One at a time: the collector may add to it meanwhile.
            forgotten = [self._forgotten.popleft() for _ in range(len(self._forgotten))]
            self._child.call("forget", forgotten, timeout_s=self._step_s)
        return self._child.call(name, *arguments, timeout_s=timeout_s or self._step_s)

    def _watched(self, handle: H) -> H:
        weakref.finalize(handle, self._forgotten.append, handle.number).atexit = False
        return handle


class HostedEngine:
    """`inner` is the engine as this process knows it, for what can be said without its library.

    With another interpreter the version comes from there: "" where the library isn't installed.
    """

    def __init__(
        self,
        inner: Engine,
        target: str,
        *,
        python: str | None = None,
        step_s: float = 30.0,
        load_s: float = 600.0,
    ) -> None:
        self._inner = inner
        self._target = target
        self._python = python
        self._step_s = step_s
        self._load_s = load_s
        self._info: Info | None = None if python else inner.info

    @property
    def info(self) -> Info:
        """Asks a child once; of an environment that can't be asked nothing is installed."""
        if self._info is None:
            try:
                told: Info = self._ask(lambda child: child.call("info", timeout_s=HANDSHAKE_S))
                self._info = replace(told, options=self._inner.info.options)
            except EngineUnavailable as error:
                log.warning("%s", error)
                self._info = replace(self._inner.info, version="")
        return self._info

    def identify(self, source: Source) -> Facts:
        facts: Facts = self._ask(lambda child: child.call("identify", source, timeout_s=HANDSHAKE_S))
        return facts

    def fetch(self, source: Source) -> None:
        """By a child of its own, in the engine's environment: the deadline counts from its last news."""
        if isinstance(self._inner, Fetching):
            self._ask(lambda child: child.call("fetch", source, timeout_s=self._load_s))

    def load(self, source: Source, device: str) -> HostedModel:
        child = self._start()
        try:
            child.call("load", source, device, timeout_s=self._load_s)
        except ModelLost as error:
            child.end()
            raise EngineUnavailable(str(error)) from error
        except EngineError as error:
            child.end()
            raise EngineUnavailable(f"{self._inner.info.name} couldn't be loaded: {error}") from error
        except BaseException:
            child.end()
            raise
        return HostedModel(child, step_s=self._step_s, slow_s=self._load_s)

    def _ask(self, question: Callable[[Child], Any]) -> Any:
        child = self._start()
        try:
            return question(child)
        except EngineError as error:
            raise EngineUnavailable(str(error)) from error
        finally:
            child.end()

    def _start(self) -> Child:
        return Child(self._target, self._python)
