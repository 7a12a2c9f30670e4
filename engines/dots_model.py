"""dots.tts loaded: any number of streams a patch at a time, or one if it is compiled."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import regex

from engines.contract import Chunk, CloneMode, EngineError, Request
from engines.dots import ANY_VOICE, MERGED_PATCHES, DotsOptions, DotsSettings, Sampling
from engines.dots_library import load_runtime
from engines.dots_prompt import DotsPrompt, prepare, restore
from engines.dots_streams import Autocast, GrowingSpeech, Manner, Speech, WholeSpeech
from engines.torch_device import TorchDevice
from engines.torch_random import RandomState
from voices.reference import Reference

if TYPE_CHECKING:
    from dots_tts.runtime_double_streaming import DotsTtsRuntimeDoubleStreaming

_SAYABLE = regex.compile(r"[\p{L}\p{N}]")
_SPEAKER_SCALE = 1.5


@dataclass(slots=True, eq=False)
class DotsStream:
    request: Request
    manner: Manner
    random: RandomState
    autocast: Autocast
    speech: Speech | None = None
    """Begun by the first step."""
    over: bool = False


class DotsModel:
    """Every stream has its buffers, its random state and its place in the text."""

    def __init__(
        self, folder: Path, *, device: str, settings: DotsSettings, sampling: Sampling, grows: bool
    ) -> None:
        self._place = TorchDevice(device, threads=settings.threads if device == "cpu" else None)
        self._sampling = sampling
        self._grows = grows
        self._max_open = 1 if settings.optimize else None
        self._open: set[DotsStream] = set()
        self._loaded: DotsTtsRuntimeDoubleStreaming | None = None
        try:
            self._loaded = load_runtime(
                folder,
                device=self._place.device,
                dtype=self._place.dtype(settings.dtype),
                optimize=settings.optimize,
                merged_patches=MERGED_PATCHES,
            )
            self._warm_up()
        except BaseException:
            self.unload()
            raise

    @property
    def _runtime(self) -> "DotsTtsRuntimeDoubleStreaming":
        if self._loaded is None:
            raise EngineError("dots is used after its unload")
        return self._loaded

    def _warm_up(self) -> None:
        if self._runtime.optimize and self._place.device.type == "cuda":
            with RandomState(0, self._place.device):
                self._runtime.run_warmup()
        stream = self.start(Request(text="Warm up.", language="en", voice=ANY_VOICE), None)
        for _ in range(3):
            if not stream.over:
                self.step([stream])
        self.close(stream)

    def prepare(self, reference: Reference, mode: CloneMode) -> bytes:
        with RandomState(0, self._place.device):
            return prepare(self._runtime, reference, mode)

    def restore(self, prompt: bytes) -> DotsPrompt:
        return restore(prompt, self._place.device)

    def start(self, request: Request, prompt: DotsPrompt | None) -> DotsStream:
        if prompt is None and request.voice != ANY_VOICE:
            raise EngineError(f"dots has no voice {request.voice!r}")
        if not request.last and not self._grows:
            raise EngineError("this checkpoint takes no text while it speaks")
        if self._max_open is not None and len(self._open) >= self._max_open:
            raise EngineError("dots, compiled, speaks one text at a time")
        options = request.options or DotsOptions()
        num_steps, guidance_scale = self._sampling.of(options)
        scale = _SPEAKER_SCALE if options.speaker_scale is None else float(options.speaker_scale)
        stream = DotsStream(
            request,
            Manner(prompt, request.language.upper(), num_steps, guidance_scale, scale),
            RandomState(request.seed, self._place.device),
            Autocast(self._place.device),
        )
        self._open.add(stream)
        return stream

    def extend(self, stream: DotsStream, text: str, last: bool) -> None:
        if not self._grows or stream.over or stream.request.last:
            raise EngineError(f"the stream takes no more text ({len(text)} characters)")
        stream.request = replace(stream.request, text=stream.request.text + text, last=last)
        if isinstance(stream.speech, GrowingSpeech):
            stream.speech.extend(text, last=last)

    def step(self, streams: Sequence[DotsStream]) -> Sequence[Chunk | EngineError]:
        return [self._advance(stream) for stream in streams]

    def close(self, stream: DotsStream) -> None:
        stream.over = True
        self._open.discard(stream)
        speech, stream.speech = stream.speech, None
        if speech is not None:
            with stream.autocast:
                speech.close()

    def peak_bytes(self) -> int | None:
        """Of the device's memory; None on the CPU."""
        return self._place.peak_bytes()

    def unload(self) -> None:
        for stream in list(self._open):
            self.close(stream)
        self._loaded = None
        self._place.give_back()

    def _advance(self, stream: DotsStream) -> Chunk | EngineError:
        if stream.over:
            return EngineError("the stream has ended")
        try:
            return self._next(stream)
        except EngineError as error:
            self.close(stream)
            return error

    def _next(self, stream: DotsStream) -> Chunk:
        if stream.speech is None and not _SAYABLE.search(stream.request.text):
            # It would make up something; a text that may still get words waits for them.
            return self._nothing(stream)
        with stream.random, stream.autocast:
            speech = stream.speech = stream.speech or self._begin(stream)
            samples = speech.next()
        if samples is None:
            self._end(stream)
            return Chunk(np.zeros(0, np.float32), last=True)
        return Chunk(samples, wants_text=speech.wants_text)

    def _nothing(self, stream: DotsStream) -> Chunk:
        if stream.request.last:
            self._end(stream)
        return Chunk(np.zeros(0, np.float32), last=stream.over, wants_text=not stream.over)

    def _begin(self, stream: DotsStream) -> Speech:
        request = stream.request
        if self._grows:
            return GrowingSpeech(self._runtime, request.text, stream.manner, last=request.last)
        return WholeSpeech(self._runtime, request.text.strip(), stream.manner)

    def _end(self, stream: DotsStream) -> None:
        stream.over = True
        stream.speech = None
