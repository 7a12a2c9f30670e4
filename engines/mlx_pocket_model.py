"""Pocket TTS loaded on MLX: the library's generator over a view of the model for each stream."""

import copy
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from engines.contract import CloneMode, EngineError, EngineUnavailable, Request, Samples
from engines.mlx_pocket import NAME, PocketOptions, PocketSettings
from engines.mlx_prompts import heard, pack, unpack
from engines.mlx_runtime import Array, Runtime, array, load_library, numbers, recording
from engines.mlx_streams import LengthCap, MlxModel, MlxPrompt, grouped
from engines.mlx_twin import twin
from voices.reference import Reference

_LONGEST_REFERENCE_S = 30


class PocketModel(MlxModel):
    """Any number of streams can be open: each has its caches, its decoder's state and its random state."""

    def __init__(
        self, folder: Path, settings: PocketSettings, voices: Mapping[str, Path], device: str, *, clones: bool
    ) -> None:
        super().__init__(NAME, Runtime(device, cache_limit_bytes=settings.cache_limit_bytes))
        self._cap = LengthCap(settings.frames_per_token, settings.spare_frames)
        self._frames_per_step = settings.frames_per_step
        self._clones = clones
        self._loaded: Any = load_library(NAME, folder)
        self._decoder: Any = _decoder_of(self._loaded.mimi)
        self._voices = {name: self._read_voice(name, file) for name, file in voices.items()}
        self._runtime.settle()

    @property
    def _library(self) -> Any:
        if self._loaded is None:
            raise EngineError(f"{NAME} is used after its unload")
        return self._loaded

    def prepare(self, reference: Reference, mode: CloneMode) -> bytes:
        if mode != "audio":
            raise EngineError(f"{NAME} clones from audio alone, not from {mode}")
        if not self._clones:
            raise EngineError(
                "these weights can't clone: the part that listens to recordings isn't among them"
            )
        samples = heard(reference, self._library.sample_rate, longest_s=_LONGEST_REFERENCE_S)
        prompt = self._remembered(self._library.get_state_for_audio_prompt(array(samples)))
        self._runtime.settle()
        return prompt

    def _remembered(self, state: Mapping[str, Any]) -> bytes:
        """What the network remembers after it has heard a voice."""
        tensors: dict[str, Any] = {}
        for layer, cache in enumerate(state["flow_cache"]):
            tensors[f"{layer}/keys"] = _numbers(cache.keys)
            tensors[f"{layer}/values"] = _numbers(cache.values)
        return pack(tensors)

    def _restore(self, prompt: bytes) -> MlxPrompt:
        layers = len(self._library.flow_lm.make_cache())
        names = [f"{layer}/{part}" for layer in range(layers) for part in ("keys", "values")]
        stored, _ = unpack(prompt, *names)
        return MlxPrompt({name: array(stored[name]) for name in names})

    def _state(self, voice: MlxPrompt) -> dict[str, Any]:
        """For one piece of text, which uses it up."""
        state: dict[str, Any] = self._library.init_state()
        for layer, cache in enumerate(state["flow_cache"]):
            cache.state = tuple(copy.copy(voice.tensors[f"{layer}/{part}"]) for part in ("keys", "values"))
        return state

    def _read_voice(self, name: str, file: Path) -> MlxPrompt:
        library = self._library
        try:
            if file.suffix == ".safetensors":
                # A path, not a name: the library would look for some names on the hub.
                return self.restore(self._remembered(library.get_state_for_audio_prompt(file)))
            return self.restore(self.prepare(recording(file), "audio"))
        except Exception as error:
            raise EngineUnavailable(f"{NAME}'s voice {name!r} can't be read from {file}: {error}") from error

    def _check(self, request: Request, prompt: MlxPrompt | None) -> None:
        if prompt is None and request.voice not in self._voices:
            raise EngineError(f"{NAME} has no voice {request.voice!r}")

    def _speak(self, request: Request, prompt: MlxPrompt | None) -> Iterator[Samples]:
        text = " ".join("".join(c if c.isprintable() else " " for c in request.text).split())
        if not any(character.isalnum() for character in text):
            return
        import mlx.core as mx

        view = copy.copy(self._library)
        view.mimi = twin(self._decoder)
        options = request.options if isinstance(request.options, PocketOptions) else PocketOptions()
        if options.temperature is not None:
            view.temp = options.temperature
        state = self._state(prompt or self._voices[request.voice])
        del prompt
        tokens = view.flow_lm.conditioner.prepare(text).tokens.shape[1]
        frames = islice(view.generate_audio_stream(state, text), self._cap.frames(tokens))
        for group in grouped(frames, self._frames_per_step):
            yield np.clip(numbers(mx.concatenate(group)), -1, 1)

    def _drop(self) -> None:
        self._voices.clear()
        self._loaded = self._decoder = None


def _decoder_of(mimi: Any) -> Any:
    """The codec without the half that hears: what is copied for each stream, its arrays aren't."""
    half = copy.copy(mimi)
    half.encoder = half.encoder_transformer = half.downsample = None
    half.encoder_cache = []
    return half


def _numbers(values: Array) -> Any:
    import mlx.core as mx

    return np.array(values.astype(mx.float32))
