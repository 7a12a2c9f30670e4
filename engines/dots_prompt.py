"""A voice prepared for dots: its vector, and for a continuation what was said and how."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import safetensors.torch
import torch

from engines.contract import CloneMode, EngineError
from voices.reference import Reference

if TYPE_CHECKING:
    from dots_tts.runtime_double_streaming import DotsTtsRuntimeDoubleStreaming

MOST_RECORDING_S = 60


@dataclass(frozen=True, slots=True)
class DotsPrompt:
    speaker: torch.Tensor
    """float32 [1, size of the vector]"""
    latents: torch.Tensor | None
    """[1, mean and deviation of each latent, frames], of the recording that is gone on with; None: none is."""
    transcript: str

    @property
    def frames(self) -> int:
        return 0 if self.latents is None else int(self.latents.shape[-1])


def prepare(runtime: "DotsTtsRuntimeDoubleStreaming", reference: Reference, mode: CloneMode) -> bytes:
    """As safetensors. Raises EngineError."""
    tensors = {"speaker": _speaker(runtime, reference)}
    if mode == "audio+text":
        spoken = reference.tone or reference
        transcript = (spoken.transcript or "").strip()
        if not transcript:
            raise EngineError("dots goes on from a recording only with its exact transcript")
        if spoken.samples.size > MOST_RECORDING_S * spoken.sample_rate_hz:
            raise EngineError(
                f"dots goes on from a recording of at most {MOST_RECORDING_S} s; by its sound alone it can be longer"
            )
        tensors["latents"] = _latents(runtime, spoken)
        tensors["transcript"] = torch.frombuffer(bytearray(transcript.encode()), dtype=torch.uint8)
    prompt: bytes = safetensors.torch.save({name: each.contiguous().cpu() for name, each in tensors.items()})
    return prompt


def restore(prompt: bytes, device: torch.device) -> DotsPrompt:
    """Raises EngineError."""
    try:
        tensors = safetensors.torch.load(prompt)
        latents = tensors.get("latents")
        return DotsPrompt(
            tensors["speaker"].to(device),
            None if latents is None else latents.to(device),
            bytes(tensors["transcript"].tolist()).decode() if latents is not None else "",
        )
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise EngineError(f"the prompt can't be read: {error}") from error


def _speaker(runtime: "DotsTtsRuntimeDoubleStreaming", reference: Reference) -> torch.Tensor:
    """Of the beginning: from a longer recording the library would take another part each time."""
    extractor = runtime.model.xvector_extractor
    sound = _sound(runtime, reference)
    most_s = float(extractor.max_audio_seconds)
    if most_s > 0:
        sound = sound[:, : round(runtime.sample_rate * most_s)]
    with torch.no_grad():
        vector: torch.Tensor = extractor(sound[None])
    return vector


def _latents(runtime: "DotsTtsRuntimeDoubleStreaming", reference: Reference) -> torch.Tensor:
    sound = _sound(runtime, reference)
    with torch.no_grad():
        latents: torch.Tensor = runtime.model._get_vocoder_inference().extract_latents(sound[None])  # noqa: SLF001
    return latents


def _sound(runtime: "DotsTtsRuntimeDoubleStreaming", reference: Reference) -> torch.Tensor:
    """float32 [1, samples of whole patches], without the silence around it: as the library reads a recording."""
    import librosa
    from dots_tts.utils.audio import high_quality_resample

    if not reference.samples.size:
        raise EngineError("the recording is empty")
    spoken, _ = librosa.effects.trim(np.asarray(reference.samples, np.float32), top_db=30)
    sound: torch.Tensor = high_quality_resample(
        torch.from_numpy(np.ascontiguousarray(spoken))[None],
        orig_sr=reference.sample_rate_hz,
        target_sr=runtime.sample_rate,
    )
    patch_samples = int(runtime.model.config.patch_size * runtime.model.hop_size)
    sound = torch.nn.functional.pad(sound, (0, -sound.shape[-1] % patch_samples))
    return sound.to(runtime.device)
