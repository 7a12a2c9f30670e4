# ruff: noqa: SLF001 - the parts of the library's loop aren't public, so its version is pinned to 0.6
"""Qwen3-TTS's own loop, one frame at a time: text and voice to codes."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from engines.mlx_qwen import QwenOptions
from engines.mlx_runtime import Array
from engines.mlx_streams import MlxPrompt

_LEAST_CLONING_PENALTY = 1.5
"""The library's: after a long recording the codes repeat themselves without."""
_ROLE_TOKENS, _CLOSING_TOKENS = 3, 2
"""Of a turn of the conversation that a transcript is dressed as."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    temperature: float
    top_k: int
    top_p: float
    repetition_penalty: float
    rest: dict[str, Any]
    """The first three for the other codes of a frame."""
    most_frames: int

    @classmethod
    def of(cls, library: Any, options: QwenOptions, *, cloning: bool) -> "Sampling":
        chosen = library._resolve_generation_options(
            options.temperature,
            options.max_new_tokens,
            options.top_k,
            options.top_p,
            options.repetition_penalty,
        )
        rest = {
            "temperature": options.subtalker_temperature,
            "top_k": options.subtalker_top_k,
            "top_p": options.subtalker_top_p,
        }
        penalty = chosen["repetition_penalty"]
        return cls(
            temperature=chosen["temperature"],
            top_k=chosen["top_k"],
            top_p=chosen["top_p"],
            repetition_penalty=max(penalty, _LEAST_CLONING_PENALTY) if cloning else penalty,
            rest={name: chosen[name] if value is None else value for name, value in rest.items()},
            most_frames=chosen["max_tokens"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What the network reads before its first frame."""

    embeddings: Array
    pad: Array


def plain_opening(library: Any, text: str, *, language: str, speaker: str | None, instruct: str) -> Opening:
    embeddings, _, pad = library._prepare_generation_inputs(
        text, language=language, speaker=speaker, instruct=instruct or None
    )
    return Opening(embeddings=embeddings, pad=pad)


def cloned_opening(library: Any, text: str, *, language: str, prompt: MlxPrompt) -> Opening:
    """The library computes a voice from its recording in each call, and keeps codes for good; a view of it answers
    with those of the prompt instead.
    """
    view = copy.copy(library)
    view.extract_speaker_embedding = lambda *_, **__: prompt.tensors["speaker"]
    recording = _stand_in()
    if "codes" not in prompt.tensors:
        embeddings, _, pad = view._prepare_generation_inputs(text, language=language, ref_audio=recording)
        return Opening(embeddings=embeddings, pad=pad)
    key = (prompt.text, (recording.size, float(recording.sum())))
    view._icl_cache = {key: (prompt.tensors["codes"], prompt.tensors["tokens"])}
    embeddings, _, pad, _ = view._prepare_icl_generation_inputs(
        text, ref_audio=recording, ref_text=prompt.text, language=language
    )
    return Opening(embeddings=embeddings, pad=pad)


def transcript_tokens(library: Any, transcript: str) -> Array:
    import mlx.core as mx

    ids = mx.array(library.tokenizer.encode(f"<|im_start|>assistant\n{transcript}<|im_end|>\n"))[None, :]
    return ids[:, _ROLE_TOKENS:-_CLOSING_TOKENS]


def frames(library: Any, opening: Opening, sampling: Sampling, most_frames: int) -> Iterator[Array]:
    """Yields the codes of a frame, [1, groups], until the network says that it has ended."""
    import mlx.core as mx

    end = library.config.talker_config.codec_eos_token_id
    suppressed = library._suppress_codec_tokens(end)
    cache = library.talker.make_cache()
    code_cache = library.talker.code_predictor.make_cache()
    said: list[int] = []
    inputs = opening.embeddings
    for _ in range(most_frames):
        logits, hidden = library.talker(inputs, cache=cache)
        first = library._sample_token(
            logits,
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            repetition_penalty=sampling.repetition_penalty,
            generated_tokens=said or None,
            suppress_tokens=suppressed,
        )
        tokens, codes = library._predict_code_tokens(first, hidden, code_cache=code_cache, **sampling.rest)
        inputs = opening.pad + library._codec_embeds_for_tokens(tokens)
        mx.eval(inputs, codes, first)
        code = int(first.item())
        if code == end:
            return
        said.append(code)
        yield codes


def _stand_in() -> Array:
    import mlx.core as mx

    return mx.zeros(1)
