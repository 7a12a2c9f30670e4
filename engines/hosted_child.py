"""The child process of a hosted engine: one model, driven over the socket that it was started with.

Run by its path, in the environment of the engine: `python hosted_child.py FD MODULE:NAME`. Needs only the standard
library, numpy and the engine's own, and runs on Python 3.10 with numpy 1.26.
"""

import atexit
import gc
import importlib
import importlib.machinery
import importlib.util
import math
import os
import platform
import resource
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engines.contract import Engine, Model
    from engines.downloads import Download
    from engines.hosted_wire import Wire

_HERE = Path(__file__).resolve().parent
_GONE = 3
_NEWS_S = 0.5


class OurPackages(importlib.machinery.PathFinder):
    """`engines` and `voices` from beside this file; everything else from the environment, untouched by ours."""

    @classmethod
    def find_spec(
        cls,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        del path, target
        if fullname not in {"engines", "voices"}:
            return None
        folder = _HERE.parent / fullname
        return importlib.util.spec_from_file_location(
            fullname, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )


class Host:
    """Answers one call at a time, in the thread that loads the model."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._model: Model[Any, Any] | None = None
        self._streams: dict[int, Any] = {}
        self._prompts: dict[int, Any] = {}
        self._handles = 0

    def call(self, name: str, arguments: Sequence[Any]) -> Any:
        return getattr(self, f"_{name}")(*arguments)

    def _info(self) -> Any:
        return self._engine.info

    def _identify(self, source: Any) -> Any:
        return self._engine.identify(source)

    def _fetch(self, source: Any) -> None:
        self._engine.fetch(source)  # type: ignore[attr-defined] # the other end has looked

    def _load(self, source: Any, device: str) -> None:
        self._model = self._engine.load(source, device)

    def _prepare(self, reference: Any, mode: Any) -> bytes:
        return self._loaded.prepare(reference, mode)

    def _restore(self, prompt: bytes) -> int:
        return self._keep(self._prompts, self._loaded.restore(prompt))

    def _forget(self, handles: Sequence[int]) -> None:
        """Nobody holds these any more."""
        for handle in handles:
            self._prompts.pop(handle, None)
            self._streams.pop(handle, None)

    def _start(self, request: Any, prompt: int | None) -> int:
        restored = None if prompt is None else self._prompts[prompt]
        return self._keep(self._streams, self._loaded.start(request, restored))

    def _extend(self, stream: int, text: str, last: bool) -> None:
        self._loaded.extend(self._streams[stream], text, last)

    def _step(self, streams: Sequence[int]) -> list[Any]:
        return list(self._loaded.step([self._streams[stream] for stream in streams]))

    def _close(self, stream: int) -> None:
        self._loaded.close(self._streams[stream])

    def _peak_bytes(self) -> int:
        told = getattr(self._loaded, "peak_bytes", lambda: None)()
        return _peak_bytes() if told is None else int(told)

    def _memory(self) -> Any:
        told = getattr(self._loaded, "memory", lambda: None)()
        return None if told is None else dict(told)

    def _unload(self) -> None:
        self._streams.clear()
        self._prompts.clear()
        self._loaded.unload()
        self._model = None
        gc.collect()

    @property
    def _loaded(self) -> "Model[Any, Any]":
        if self._model is None:
            raise RuntimeError("no model is loaded")
        return self._model

    def _keep(self, table: dict[int, Any], value: Any) -> int:
        self._handles += 1
        table[self._handles] = value
        return self._handles


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def serve(wire: "Wire", engine: "Engine") -> None:
    """Until the other end closes."""
    from engines import downloads
    from engines.hosted_wire import Closed

    host, news = Host(engine), News(wire)
    try:
        with downloads.watched(news.tell):
            while True:
                name, arguments = wire.receive()
                with news.allowed():
                    try:
                        answer = [True, host.call(name, arguments)]
                    except Exception as error:  # noqa: BLE001 - whatever an engine raises crosses as an answer
                        answer = [False, error]
                wire.send(answer)
    except Closed:
        return


class News:
    """Of downloads: sent before the answer to the call that is being served, by whichever thread has them.

    At most one each half second, and the latest is never kept back for longer: what stands still is told of, too.
    """

    def __init__(self, wire: "Wire") -> None:
        self._wire = wire
        self._lock = threading.Lock()
        self._allowed = False
        self._told_s = -math.inf
        self._later: threading.Timer | None = None
        self._latest: Download | None = None

    @contextmanager
    def allowed(self) -> Iterator[None]:
        with self._lock:
            self._allowed = True
        try:
            yield
        finally:
            with self._lock:
                self._allowed = False
                if self._later is not None:
                    self._later.cancel()
                    self._later = None

    def tell(self, download: "Download") -> None:
        with self._lock:
            self._latest = download
            wait_s = self._told_s + _NEWS_S - time.monotonic()
            if download.over or wait_s <= 0:
                self._send()
            elif self._allowed and self._later is None:
                self._later = threading.Timer(wait_s, self._tell_latest)
                self._later.daemon = True
                self._later.start()

    def _tell_latest(self) -> None:
        with self._lock:
            if threading.current_thread() is self._later:
                self._later = None
                self._send()

    def _send(self) -> None:
        if self._allowed and self._latest is not None:
            self._told_s = time.monotonic()
            self._wire.send([None, self._latest])
            self._latest = None


def _end_with(end: socket.socket) -> None:
    """The parent is gone, whatever the model is doing; what the library has started goes, too."""
    poll = select.poll()
    poll.register(end, 0)
    poll.poll()
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(_GONE)


def _end_what_was_started() -> None:
    """The last thing that is done; our own exit code stays."""
    if os.getpgrp() == os.getpid():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)


def main(fd: int, target: str) -> None:
    atexit.register(_end_what_was_started)
    # What a library prints mustn't be taken for the server's own output.
    os.dup2(2, 1)
    sys.meta_path.insert(0, OurPackages)
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != _HERE]
    from engines.hosted_wire import VERSION, Wire

    end = socket.socket(fileno=fd)
    wire = Wire(end)
    wire.send({"wire": VERSION, "python": platform.python_version(), "pid": os.getpid()})
    threading.Thread(target=_end_with, args=(end,), daemon=True).start()
    module, _, name = target.partition(":")
    try:
        engine: Engine = getattr(importlib.import_module(module), name)
    except Exception as error:  # noqa: BLE001 - whatever a module raises when it is imported
        wire.send([False, error])
        return
    wire.options = engine.info.options
    wire.send([True, None])
    serve(wire, engine)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
