"""nano-vllm-voxcpm loaded: its own process makes all utterances at once, a step takes what each has ready."""

import importlib
import threading
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import Future
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from engines.async_library import LibraryLoop
from engines.contract import (
    Chunk,
    CloneMode,
    EngineError,
    EngineFault,
    EngineUnavailable,
    ModelLost,
    OptionError,
    Request,
    Samples,
)
from engines.nano_vllm_prompt import NanoPrompt, build, pack, unpack
from engines.nano_vllm_settings import NanoOptions, NanoSettings
from engines.voxcpm_settings import DESIGN
from engines.voxcpm_text import instructed, spoken
from voices.reference import Reference

_WAIT_S = 0.05
"""A step's patience where nothing is ready: the lane has others to serve, and mustn't spin."""
_STEPS_A_CHAR, _FIRST_STEPS = 6, 10
"""As the library voxcpm bounds a text's audio, where a token is a character."""


class Pool(Protocol):
    """What is used of the library's pool of servers."""

    async def wait_for_ready(self) -> None: ...
    async def stop(self) -> None: ...
    async def encode_latents(self, wav: bytes, wav_format: str) -> bytes: ...
    def generate(self, target_text: str, **options: Any) -> "AsyncGenerator[Samples, None]": ...


class MakePool(Protocol):
    """Called on the loop that the pool then lives on."""

    def __call__(self) -> Pool: ...


@dataclass(slots=True, eq=False)
class NanoStream:
    request: Request
    prompt: "NanoPrompt | None"
    ready: "deque[Samples | Exception | None]" = field(default_factory=deque)
    """None: that was all. No more than a request's `max_len`."""
    pouring: "Future[None] | None" = None
    over: bool = False


class NanoModel:
    """Many streams at once; what one of them has made ahead waits here, a segment at the most."""

    def __init__(self, make_pool: MakePool, settings: NanoSettings) -> None:
        self._settings = settings
        self._open: set[NanoStream] = set()
        self._news = threading.Condition()
        self._loop = LibraryLoop("nano-vllm-voxcpm")
        self._pool: Pool | None = None
        self._voices: dict[str, NanoPrompt | None] = {DESIGN: None}
        try:
            self._pool = self._loop.call(lambda: _made(make_pool))
            for voice in settings.recordings:
                self._voices[voice.name] = self._build(voice.read(), voice.mode)
        except EngineUnavailable:
            self.unload()
            raise
        except Exception as error:
            self.unload()
            raise EngineUnavailable(f"nano-vllm-voxcpm couldn't be loaded: {_reason(error)}") from error

    @property
    def _library(self) -> Pool:
        if self._pool is None:
            raise EngineError("nano-vllm-voxcpm is used after its unload")
        return self._pool

    def prepare(self, reference: Reference, mode: CloneMode) -> bytes:
        return pack(self._build(reference, mode))

    def restore(self, prompt: bytes) -> NanoPrompt:
        return unpack(prompt)

    def _build(self, reference: Reference, mode: CloneMode) -> NanoPrompt:
        library = self._library

        def encode(wav: bytes) -> bytes:
            return self._loop.call(lambda: library.encode_latents(wav, "wav"))

        return build(encode, reference, mode, self._settings.with_text)

    def start(self, request: Request, prompt: "NanoPrompt | None") -> NanoStream:
        if prompt is None:
            if request.voice not in self._voices:
                raise EngineError(f"nano-vllm-voxcpm has no voice {request.voice!r}")
            prompt = self._voices[request.voice]
        if len(self._open) >= self._settings.max_open:
            raise EngineError(f"nano-vllm-voxcpm speaks for {self._settings.max_open} at once")
        if _options(request).instruct.strip() and prompt is not None and prompt.prompt is not None:
            raise OptionError("instruct", "a voice that goes on from a transcript takes no instruction")
        stream = NanoStream(request, prompt)
        self._open.add(stream)
        return stream

    def extend(self, stream: NanoStream, text: str, last: bool) -> None:
        raise EngineError(
            f"nano-vllm-voxcpm's streams don't grow ({stream.request.voice}, {len(text)} characters, {last=})"
        )

    def step(self, streams: "Sequence[NanoStream]") -> "Sequence[Chunk | EngineError]":
        for stream in streams:
            if not stream.over and stream.pouring is None:
                stream.pouring = self._loop.run(self._pour(stream))
        with self._news:
            self._news.wait_for(
                lambda: any(stream.over or stream.ready for stream in streams), timeout=_WAIT_S
            )
            return [self._take(stream) for stream in streams]

    def close(self, stream: NanoStream) -> None:
        """The library is told to forget it, which takes effect at its next step."""
        stream.over = True
        if stream.pouring is not None:
            stream.pouring.cancel()
        stream.ready.clear()
        self._open.discard(stream)

    def unload(self) -> None:
        for stream in list(self._open):
            self.close(stream)
        pool, self._pool = self._pool, None
        if pool is not None:
            self._loop.call(pool.stop)
        self._loop.end()
        self._voices.clear()

    async def _pour(self, stream: NanoStream) -> None:
        """On the loop: from the library into the stream."""
        text = spoken(stream.request.text)
        try:
            if text:
                async with aclosing(self._generate(stream, text)) as pieces:
                    async for piece in pieces:
                        self._put(stream, np.clip(np.asarray(piece, np.float32).reshape(-1), -1, 1))
            self._put(stream, None)
        except Exception as error:  # noqa: BLE001 - the edge of the loop: whatever it is, the lane hears of it
            self._put(stream, error)

    def _generate(self, stream: NanoStream, text: str) -> "AsyncGenerator[Samples, None]":
        options = _options(stream.request)
        text = instructed(text, options.instruct)
        given: dict[str, Any] = {
            "max_generate_length": min(options.max_len, _STEPS_A_CHAR * len(text) + _FIRST_STEPS),
            "temperature": options.temperature,
            "cfg_value": options.cfg_value,
            "seed": stream.request.seed % 2**31,
        }
        if stream.prompt is not None:
            given["ref_audio_latents"] = stream.prompt.reference
            given["prompt_latents"] = stream.prompt.prompt
            given["prompt_text"] = stream.prompt.text
        return self._library.generate(text, **given)

    def _put(self, stream: NanoStream, what: "Samples | Exception | None") -> None:
        with self._news:
            if not stream.over:
                stream.ready.append(what)
                self._news.notify()

    def _take(self, stream: NanoStream) -> "Chunk | EngineError":
        if stream.over:
            return EngineError("the stream has ended")
        pieces: list[Samples] = []
        while stream.ready and isinstance(stream.ready[0], np.ndarray):
            pieces.append(stream.ready.popleft())  # type: ignore[arg-type]
        samples = np.concatenate(pieces) if pieces else np.zeros(0, np.float32)
        if not stream.ready:
            return Chunk(samples)
        end = stream.ready[0]
        if isinstance(end, Exception):
            if samples.size:
                return Chunk(samples)
            self.close(stream)
            if type(end).__name__ == "WorkerDiedError":
                raise ModelLost(f"nano-vllm-voxcpm's process is gone: {_reason(end)}")
            return EngineFault(_reason(end))
        self.close(stream)
        return Chunk(samples, last=True)


def make_pool(folder: Path, settings: NanoSettings) -> MakePool:
    """Raises EngineUnavailable where the library can't be imported or sees no card."""
    from engines.accelerator import require_device

    try:
        torch, library = (importlib.import_module(name) for name in ("torch", "nanovllm_voxcpm"))
    except ImportError as error:
        raise EngineUnavailable(f"nano-vllm-voxcpm can't be imported: {error}") from error
    require_device(torch, "cuda")

    def make() -> Pool:
        pool: Pool = library.VoxCPM.from_pretrained(
            model=str(folder),
            devices=list(settings.devices),
            max_num_seqs=settings.max_open,
            inference_timesteps=settings.inference_timesteps,
            gpu_memory_utilization=settings.gpu_memory_utilization,
            enforce_eager=settings.enforce_eager,
        )
        return pool

    return make


async def _made(make_pool: MakePool) -> Pool:
    pool = make_pool()
    try:
        await pool.wait_for_ready()
    except BaseException:
        await pool.stop()
        raise
    return pool


def _options(request: Request) -> NanoOptions:
    return NanoOptions() if request.options is None else request.options


def _reason(error: BaseException) -> str:
    """What comes from its process is a whole traceback: the last line says it."""
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else repr(error)
