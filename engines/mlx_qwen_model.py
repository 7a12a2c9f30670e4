"""Qwen3-TTS loaded on MLX: the library's parts, run some frames at a time by whoever steps."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from engines.contract import CloneMode, EngineError, EngineUnavailable, OptionError, Request, Samples
from engines.mlx_prompts import continued, heard, pack, unpack
from engines.mlx_qwen import NAME, Checkpoint, QwenOptions
from engines.mlx_qwen_codec import Decoding, whole_decoder
from engines.mlx_qwen_loop import Sampling, cloned_opening, frames, plain_opening, transcript_tokens
from engines.mlx_runtime import Runtime, array, load_library, numbers, recording
from engines.mlx_settings import MlxSettings
from engines.mlx_streams import LengthCap, MlxModel, MlxPrompt, grouped
from engines.recordings import RecordedVoice
from voices.reference import Reference


class QwenModel(MlxModel):
    """Any number of streams can be open: each has its caches, its decoder's state and its random state."""

    def __init__(
        self,
        folder: Path,
        checkpoint: Checkpoint,
        settings: MlxSettings,
        descriptions: dict[str, str],
        device: str,
    ) -> None:
        super().__init__(NAME, Runtime(device, cache_limit_bytes=settings.cache_limit_bytes))
        self._checkpoint = checkpoint
        self._descriptions = descriptions
        self._cap = LengthCap(settings.frames_per_token, settings.spare_frames)
        self._frames_per_step = settings.frames_per_step
        self._loaded: Any = load_library(NAME, folder)
        if self._loaded.tokenizer is None or self._loaded.speech_tokenizer is None:
            raise EngineUnavailable(f"{NAME}: {folder} has no tokenizer, or none that can be read")
        self._decoder: Any = whole_decoder(self._loaded.speech_tokenizer, folder, hears=checkpoint.hears_text)
        self._loaded.speech_tokenizer.decoder = self._decoder
        recorded = settings.recordings if checkpoint.kind == "base" else ()
        self._voices = {voice.name: self._read_voice(voice) for voice in recorded}
        self._runtime.settle()

    @property
    def _library(self) -> Any:
        if self._loaded is None:
            raise EngineError(f"{NAME} is used after its unload")
        return self._loaded

    def prepare(self, reference: Reference, mode: CloneMode) -> bytes:
        """A tone, a second recording, takes the place of the first in all but who speaks."""
        if mode not in self._checkpoint.clones or (reference.tone and not self._checkpoint.hears_text):
            raise EngineError(f"this checkpoint of {NAME} doesn't clone from {mode}")
        library, rate_hz = self._library, self._checkpoint.sample_rate_hz
        spoken = continued(reference, mode)
        audio = array(heard(reference, rate_hz, whole=spoken is reference))
        tensors: dict[str, Any] = {"speaker": numbers(library.extract_speaker_embedding(audio))}
        if spoken is not None:
            audio = array(heard(spoken, rate_hz, whole=True))
            tensors["codes"] = np.array(library.speech_tokenizer.encode(audio[None, None, :])).astype(
                np.int32
            )
        del audio
        self._runtime.settle()
        return pack(tensors, None if spoken is None else spoken.transcript)

    def _restore(self, prompt: bytes) -> MlxPrompt:
        stored, text = unpack(prompt, "speaker")
        tensors = {"speaker": array(stored["speaker"])[None, :]}
        if "codes" in stored:
            tensors |= {"codes": array(stored["codes"]), "tokens": transcript_tokens(self._library, text)}
        return MlxPrompt(tensors, text)

    def _read_voice(self, voice: RecordedVoice) -> MlxPrompt:
        try:
            return self.restore(self.prepare(recording(voice.audio, voice.text), voice.mode))
        except Exception as error:
            raise EngineUnavailable(
                f"{NAME}'s voice {voice.name!r} can't be read from {voice.audio}: {error}"
            ) from error

    def _check(self, request: Request, prompt: MlxPrompt | None) -> None:
        options = _options(request)
        if options.instruct and not self._checkpoint.takes_instruct:
            raise OptionError("instruct", "this checkpoint takes no instructions")
        known = {*self._checkpoint.speakers, *self._descriptions, *self._voices}
        if prompt is None and request.voice not in known:
            raise EngineError(f"{NAME} has no voice {request.voice!r}")

    def _speak(self, request: Request, prompt: MlxPrompt | None) -> Iterator[Samples]:
        text = " ".join("".join(c if c.isprintable() else " " for c in request.text).split())
        if not any(character.isalnum() for character in text):
            return
        library, options = self._library, _options(request)
        language = self._checkpoint.languages.get(request.language, "auto")
        voice = prompt or self._voices.get(request.voice)
        if voice is None:
            opening = plain_opening(
                library,
                text,
                language=language,
                speaker=request.voice if request.voice in self._checkpoint.speakers else None,
                instruct=options.instruct or self._descriptions.get(request.voice, ""),
            )
        else:
            opening = cloned_opening(library, text, language=language, prompt=voice)
        cloning = voice is not None and "codes" in voice.tensors
        sampling = Sampling.of(library, options, cloning=cloning)
        most_frames = min(self._cap.frames(len(library.tokenizer.encode(text))), sampling.most_frames)
        decoding = Decoding(self._decoder)
        del voice, prompt
        for group in grouped(frames(library, opening, sampling, most_frames), self._frames_per_step):
            yield decoding.samples(group)

    def _drop(self) -> None:
        self._voices.clear()
        self._loaded = self._decoder = None


def _options(request: Request) -> QwenOptions:
    return request.options if isinstance(request.options, QwenOptions) else QwenOptions()
