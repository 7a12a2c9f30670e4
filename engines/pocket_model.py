"""Pocket TTS loaded: the library's own parts, run a frame at a time by whoever steps.

The library's generator lets two threads run ahead of its caller and draws from the global random state. Here a step
is one frame: while a helper decodes it to sound, the lane computes the next one's latent. Nothing runs between steps,
so a stream that isn't stepped costs nothing and ends by being forgotten.
"""

import copy
import gc
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors.torch
import torch

from engines.accelerator import require_device
from engines.background import Background
from engines.contract import Chunk, CloneMode, EngineError, EngineUnavailable, Request, Samples
from engines.pocket_loop import Frame, State, decode, frames, pieces
from engines.torch_random import RandomState
from voices.reference import Reference

if TYPE_CHECKING:
    from pocket_tts import TTSModel

_LONGEST_REFERENCE_S = 30


@dataclass(slots=True, eq=False)
class PocketStream:
    request: Request
    voice: State | None
    random: RandomState
    frames: Iterator[Frame] | None = None
    upcoming: Frame | None = None
    over: bool = False


class PocketModel:
    """Any number of streams can be open: each has its state and its random state."""

    def __init__(
        self,
        config: Path | None,
        *,
        model: str,
        device: str,
        int8: bool,
        threads: int,
        files: Mapping[str, Path],
        names: Sequence[str],
    ) -> None:
        self._threads_before = torch.get_num_threads()
        torch.set_num_threads(threads)
        self._device = device
        self._model: TTSModel | None = _load(config, model, device, int8=int8)
        torch.set_num_threads(threads)  # the library's import has set it for itself
        self._decoder = ThreadPoolExecutor(
            1, "pocket decoder", initializer=torch.set_num_threads, initargs=(threads,)
        )
        self._names = set(names)
        self._temperature = self._model.temp
        self._voices: dict[str, State] = {}
        self._loading: dict[str, Background[State]] = {}
        for name, file in files.items():
            self._voices[name] = self._read_voice(name, file)
        if files:
            self._warm_up(next(iter(files)))

    @property
    def _library(self) -> "TTSModel":
        if self._model is None:
            raise EngineError("pocket is used after its unload")
        return self._model

    def _read_voice(self, name: str, file: Path) -> State:
        try:
            with RandomState(0, self._device):
                state: State = self._library.get_state_for_audio_prompt(file)
        except Exception as error:
            raise EngineUnavailable(f"pocket's voice {name!r} can't be read from {file}: {error}") from error
        return state

    def _warm_up(self, name: str) -> None:
        stream = self.start(Request(text="Warm up.", language="", voice=name), None)
        for _ in range(3):
            if not stream.over:
                self.step([stream])
        self.close(stream)

    def prepare(self, reference: Reference, mode: CloneMode) -> bytes:
        if mode != "audio":
            raise EngineError(f"pocket clones from audio alone, not from {mode}")
        if not self._library.has_voice_cloning:
            raise EngineError(
                "these weights can't clone; accept the terms of kyutai/pocket-tts on the hub, log in and load it again"
            )
        samples = _resampled(reference, self._library.sample_rate)
        if not samples.size:
            raise EngineError("the recording is empty")
        with RandomState(0, self._device):
            state: State = self._library.get_state_for_audio_prompt(torch.from_numpy(samples)[None])
        flat = {f"{module}/{key}": value for module, values in state.items() for key, value in values.items()}
        prompt: bytes = safetensors.torch.save(
            {name: value.contiguous().cpu() for name, value in flat.items()}
        )
        return prompt

    def restore(self, prompt: bytes) -> State:
        state: State = {}
        try:
            for name, value in safetensors.torch.load(prompt).items():
                module, _, key = name.partition("/")
                state.setdefault(module, {})[key] = value.to(self._library.device)
        except safetensors.SafetensorError as error:
            raise EngineError(f"the prompt can't be read: {error}") from error
        return state

    def start(self, request: Request, prompt: State | None) -> PocketStream:
        voice = prompt if prompt is not None else self._voices.get(request.voice)
        if voice is None and request.voice not in self._names:
            raise EngineError(f"pocket has no voice {request.voice!r}")
        if voice is None and request.voice not in self._loading:
            library, name = self._library, request.voice
            self._loading[name] = Background(
                f"pocket's voice {name!r}", lambda: library.get_state_for_audio_prompt(name)
            )
        return PocketStream(request, voice, RandomState(request.seed, self._device))

    def extend(self, stream: PocketStream, text: str, last: bool) -> None:
        raise EngineError(
            f"pocket's streams don't grow ({stream.request.voice}, {len(text)} characters, {last=})"
        )

    def step(self, streams: Sequence[PocketStream]) -> Sequence[Chunk | EngineError]:
        return [self._advance(stream) for stream in streams]

    def close(self, stream: PocketStream) -> None:
        stream.over = True
        stream.voice = stream.frames = stream.upcoming = None

    def peak_bytes(self) -> int | None:
        """Of the device's memory; None on the CPU."""
        return None if self._device == "cpu" else torch.cuda.max_memory_reserved(self._device)

    def unload(self) -> None:
        self._decoder.shutdown()
        self._voices.clear()
        self._loading.clear()
        self._model = None
        torch.set_num_threads(self._threads_before)
        gc.collect()
        if self._device != "cpu":
            torch.cuda.empty_cache()

    def _advance(self, stream: PocketStream) -> Chunk | EngineError:
        if stream.over:
            return EngineError("the stream has ended")
        try:
            if stream.voice is None:
                stream.voice = self._await(stream.request.voice)
            if stream.voice is None:
                return Chunk(np.zeros(0, np.float32))
            return self._next_frame(stream, stream.voice)
        except EngineError as error:
            self.close(stream)
            return error

    def _await(self, name: str) -> State | None:
        if name not in self._voices:
            loading = self._loading[name]
            try:
                found = loading.wait()
            finally:
                if loading.over:
                    self._loading.pop(name, None)
            if found is None:
                return None
            self._voices[name] = found
        return self._voices[name]

    def _next_frame(self, stream: PocketStream, voice: State) -> Chunk:
        if stream.frames is None:
            stream.frames = self._frames(stream.request, voice)
            stream.upcoming = self._draw(stream)
        frame = stream.upcoming
        if frame is None:
            stream.over = True
            return Chunk(np.zeros(0, np.float32), last=True)
        decoded = self._decoder.submit(decode, self._library, *frame)
        try:
            stream.upcoming = self._draw(stream)
        finally:
            samples = decoded.result()
        stream.over = stream.upcoming is None
        return Chunk(samples, last=stream.over)

    def _draw(self, stream: PocketStream) -> Frame | None:
        if stream.frames is None:
            return None
        library = self._library
        asked = None if stream.request.options is None else stream.request.options.temperature
        library.temp = self._temperature if asked is None else asked
        with stream.random, torch.no_grad():
            return next(stream.frames, None)

    def _frames(self, request: Request, voice: State) -> Iterator[Frame]:
        """The latents of all its pieces of text, each piece from the voice's own state."""
        for piece in pieces(self._library, request.text):
            yield from frames(self._library, piece, copy.deepcopy(voice))


def _load(config: Path | None, model: str, device: str, *, int8: bool) -> "TTSModel":
    from pocket_tts import TTSModel

    require_device(torch, device)
    if device != "cpu" and int8:
        raise EngineUnavailable("pocket's int8 runs on the CPU alone")
    source: dict[str, Any] = {"language": model} if config is None else {"config": str(config)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # PyTorch's own int8, where torchao isn't installed
            loaded: TTSModel = TTSModel.load_model(**source, quantize=int8)
    except Exception as error:
        reason = str(error).strip().partition("\n")[0] or repr(error)
        raise EngineUnavailable(f"pocket couldn't be loaded: {reason}") from error
    return loaded.to(device).eval()


def _resampled(reference: Reference, rate_hz: int) -> Samples:
    samples = reference.samples[: _LONGEST_REFERENCE_S * reference.sample_rate_hz]
    if reference.sample_rate_hz != rate_hz:
        import soxr

        samples = soxr.resample(samples, reference.sample_rate_hz, rate_hz)
    return np.ascontiguousarray(samples, np.float32)
