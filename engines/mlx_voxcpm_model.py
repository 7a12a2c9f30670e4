# ruff: noqa: SLF001 - parts of the library's model aren't public, so its version is pinned to 0.6
"""VoxCPM loaded on MLX: the library's parts, run some patches at a time by whoever steps."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from engines.contract import CloneMode, EngineError, EngineUnavailable, OptionError, Request, Samples
from engines.mlx_prompts import continued, heard, pack, unpack
from engines.mlx_runtime import Array, Runtime, array, load_library, recording
from engines.mlx_streams import LengthCap, MlxModel, MlxPrompt, grouped
from engines.mlx_voxcpm import DESIGN, NAME, Checkpoint, VoxcpmOptions, VoxcpmSettings
from engines.mlx_voxcpm_loop import Decoding, Manner, Voice, patches
from engines.recordings import RecordedVoice
from engines.voxcpm_text import instructed, spoken
from voices.reference import Reference

_FIRST_LEAST, _SECOND_LEAST = 5, 2


class VoxcpmModel(MlxModel):
    """Any number of streams can be open: each has its caches, its last patches and its random state."""

    def __init__(self, folder: Path, checkpoint: Checkpoint, settings: VoxcpmSettings, device: str) -> None:
        super().__init__(NAME, Runtime(device, cache_limit_bytes=settings.cache_limit_bytes))
        self._checkpoint = checkpoint
        self._with_text = settings.with_text
        self._cap = LengthCap(settings.frames_per_token, settings.spare_frames)
        self._frames_per_step = settings.frames_per_step
        self._loaded: Any = load_library(NAME, folder)
        self._voices = {voice.name: self._read_voice(voice) for voice in settings.recordings}
        self._runtime.settle()

    @property
    def _library(self) -> Any:
        if self._loaded is None:
            raise EngineError(f"{NAME} is used after its unload")
        return self._loaded

    def prepare(self, reference: Reference, mode: CloneMode) -> bytes:
        """A tone, a second recording, is gone on from in the place of the first, which says who speaks."""
        if mode not in self._checkpoint.clones:
            raise EngineError(f"this checkpoint of {NAME} doesn't clone from {mode}")
        spoken = continued(reference, mode)
        tensors: dict[str, Any] = {}
        if self._checkpoint.second and (spoken is not reference or self._with_text == "ultimate"):
            tensors["reference"] = self._latents(reference, "right", whole=spoken is reference)
        if spoken is not None:
            tensors["continued"] = self._latents(spoken, "left", whole=True)
        self._runtime.settle()
        return pack(tensors, None if spoken is None else spoken.transcript)

    def _latents(self, reference: Reference, padded: str, *, whole: bool) -> Any:
        import mlx.core as mx

        library = self._library
        samples = heard(reference, self._checkpoint.sample_rate_hz, whole=whole)
        if self._checkpoint.second:
            latents = library._encode_wav(samples, padding_mode=padded)
        else:
            latents = library._encode_prompt_audio(array(samples))
        return np.array(latents.astype(mx.float32))

    def _restore(self, prompt: bytes) -> MlxPrompt:
        stored, text = unpack(prompt)
        if not set(stored) & {"reference", "continued"}:
            raise EngineError("the prompt holds no voice")
        return MlxPrompt({name: self._as_computed(array(value)) for name, value in stored.items()}, text)

    def _as_computed(self, latents: Array) -> Array:
        """In the precision of the codec, which they came in."""
        from mlx.utils import tree_flatten

        (_, weight), *_ = tree_flatten(self._library.audio_vae.encoder.parameters())
        return latents.astype(weight.dtype)

    def _read_voice(self, voice: RecordedVoice) -> MlxPrompt:
        try:
            return self.restore(self.prepare(recording(voice.audio, voice.text), voice.mode))
        except Exception as error:
            raise EngineUnavailable(
                f"{NAME}'s voice {voice.name!r} can't be read from {voice.audio}: {error}"
            ) from error

    def _check(self, request: Request, prompt: MlxPrompt | None) -> None:
        voice = prompt or self._voices.get(request.voice)
        if voice is None and request.voice != DESIGN:
            raise EngineError(f"{NAME} has no voice {request.voice!r}")
        if _options(request).instruct.strip():
            if not self._checkpoint.second:
                raise OptionError("instruct", "this checkpoint takes no instructions")
            if voice is not None and "continued" in voice.tensors:
                raise OptionError("instruct", "a voice that goes on from a transcript takes no instructions")

    def _speak(self, request: Request, prompt: MlxPrompt | None) -> Iterator[Samples]:
        text = spoken(request.text)
        if not text:
            return
        library, options, second = self._library, _options(request), self._checkpoint.second
        stored = prompt or self._voices.get(request.voice) or MlxPrompt({})
        voice = Voice(**stored.tensors)
        tokens = self._tokens(text)
        ids = self._tokens(stored.text + instructed(text, options.instruct))
        del stored, prompt
        least = options.min_len if options.min_len is not None else _SECOND_LEAST if second else _FIRST_LEAST
        manner = Manner(
            cfg_value=options.cfg_value,
            timesteps=options.inference_timesteps,
            least_patches=least,
            most_patches=min(self._cap.frames(len(tokens)), options.max_len),
        )
        decoding = Decoding(library, voice, second=second)
        for group in grouped(patches(library, ids, voice, manner, second=second), self._frames_per_step):
            yield np.clip(decoding.samples(group), -1, 1)

    def _tokens(self, text: str) -> list[int]:
        library = self._library
        ids: list[int] = (
            library._tokenize(text) if self._checkpoint.second else library.tokenizer.encode(text)
        )
        return ids

    def _drop(self) -> None:
        self._voices.clear()
        self._loaded = None


def _options(request: Request) -> VoxcpmOptions:
    return request.options if isinstance(request.options, VoxcpmOptions) else VoxcpmOptions()
