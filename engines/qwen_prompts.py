"""A voice as Qwen3-TTS takes it: a vector of the speaker, and for a closer likeness the recording's codes and words."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import soxr
import torch
from torch import Tensor

from engines.contract import CloneMode, EngineError, Samples
from engines.qwen_codec import Codec, CodecState
from voices.reference import Reference

_LONGEST_S = 60
"""Of a recording whose words aren't needed; of another one every word is, and it is refused."""


@dataclass(frozen=True, slots=True)
class QwenPrompt:
    item: Any
    """The library's VoiceClonePromptItem."""
    codec: CodecState
    """As it is after the recording, with which the speech goes on."""


def compute(library: Any, reference: Reference, mode: CloneMode) -> bytes:
    """safetensors: `speaker` [width], and `codes` [frames, groups] with `text`. Raises EngineError.

    A second recording, for the tone, takes the place of the first in all but who speaks.
    """
    spoken = reference if reference.tone is None else reference.tone
    words = None if mode == "audio" and reference.tone is None else spoken.transcript
    if not words and (mode == "audio+text" or reference.tone is not None):
        raise EngineError("qwen needs what is said in the recording, to clone with audio+text")
    speaker = _item(library, _resampled(library, reference, whole=False), None)
    tensors = {"speaker": speaker.ref_spk_embedding}
    if words:
        tensors["codes"] = _item(library, _resampled(library, spoken, whole=True), words).ref_code
        tensors["text"] = torch.frombuffer(bytearray(words.encode()), dtype=torch.uint8)
    return safetensors.torch.save({name: value.contiguous().cpu() for name, value in tensors.items()})  # type: ignore[no-any-return]


def restored(library: Any, codec: Codec, prompt: bytes) -> QwenPrompt:
    """Raises EngineError."""
    from qwen_tts import VoiceClonePromptItem

    try:
        tensors = safetensors.torch.load(prompt)
    except safetensors.SafetensorError as error:
        raise EngineError(f"the prompt can't be read: {error}") from error
    model = library.model
    _check(model.talker.config, tensors)
    device = model.talker.device
    codes = tensors.get("codes")
    text = bytes(tensors["text"].numpy()).decode() if codes is not None else None
    item = VoiceClonePromptItem(
        ref_code=None if codes is None else codes.to(device),
        ref_spk_embedding=tensors["speaker"].to(device, model.talker.dtype),
        x_vector_only_mode=codes is None,
        icl_mode=codes is not None,
        ref_text=text,
    )
    state = codec.fresh()
    if codes is not None:
        codec.decode(codes.to(device).T[None], [state])
    return QwenPrompt(item, state)


def _check(config: Any, tensors: dict[str, Tensor]) -> None:
    """A code that isn't one would end a whole CUDA process."""
    speaker, codes = tensors.get("speaker"), tensors.get("codes")
    most = config.code_predictor_config.vocab_size
    if speaker is None or tuple(speaker.shape) != (config.hidden_size,):
        raise EngineError("the prompt is of another checkpoint: its speaker's vector doesn't fit")
    if codes is None:
        return
    fits = codes.dtype == torch.int64 and codes.dim() == 2 and codes.shape[1] == config.num_code_groups
    if not fits or not codes.numel() or codes.min() < 0 or codes.max() >= most or "text" not in tensors:
        raise EngineError("the prompt is of another checkpoint: its codes don't fit")


def _item(library: Any, samples: tuple[Samples, int], words: str | None) -> Any:
    try:
        (item,) = library.create_voice_clone_prompt(
            ref_audio=samples, ref_text=words, x_vector_only_mode=words is None
        )
    except ValueError as error:
        raise EngineError(f"qwen can't clone this recording: {error}") from error
    return item


def _resampled(library: Any, reference: Reference, *, whole: bool) -> tuple[Samples, int]:
    rate_hz = int(library.model.speaker_encoder_sample_rate)
    most = _LONGEST_S * reference.sample_rate_hz
    if not reference.samples.size:
        raise EngineError("the recording is empty")
    if whole and reference.samples.size > most:
        raise EngineError(f"qwen clones from at most {_LONGEST_S} s with their words")
    samples = reference.samples[:most]
    if reference.sample_rate_hz != rate_hz:
        samples = soxr.resample(samples, reference.sample_rate_hz, rate_hz)
    return np.ascontiguousarray(samples, np.float32), rate_hz
