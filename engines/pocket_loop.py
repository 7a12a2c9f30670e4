# ruff: noqa: SLF001 - the parts of the library's loop aren't public, so its version is pinned to 4.0
"""Pocket TTS's own loop, one turn at a time: text to latents, latents to sound."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from engines.contract import Samples

if TYPE_CHECKING:
    from pocket_tts import TTSModel

State = dict[str, dict[str, torch.Tensor]]
"""What the model remembers of a voice, by module."""
_FADE_S = 0.005
"""A fresh decoder begins with a click."""


@dataclass(slots=True)
class Decoding:
    """One piece of text on its way from latents to sound."""

    state: State
    fresh: bool = True


Frame = tuple[torch.Tensor, Decoding]


def pieces(library: "TTSModel", text: str) -> list[str]:
    """As the library cuts and dresses it: at most 50 tokens each, a capital, a full stop."""
    from pocket_tts.default_parameters import MAX_TOKEN_PER_CHUNK
    from pocket_tts.models.text_chunking import split_into_best_sentences

    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if not any(character.isalnum() for character in plain):
        return []
    found: list[str] = split_into_best_sentences(
        library.flow_lm.conditioner.tokenizer,
        plain,
        MAX_TOKEN_PER_CHUNK,
        library.pad_with_spaces_for_short_inputs,
        library.remove_semicolons,
        library.append_terminal_punctuation,
        library.capitalize_first_letter,
        library.replace_characters,
    )
    return found


def frames(library: "TTSModel", piece: str, state: State) -> Iterator[Frame]:
    """The library's own loop, one turn at a time. `state` is used up."""
    from pocket_tts.models.text_chunking import prepare_text_prompt
    from pocket_tts.modules.stateful_module import init_states

    text, guessed = prepare_text_prompt(
        piece,
        library.pad_with_spaces_for_short_inputs,
        library.remove_semicolons,
        library.append_terminal_punctuation,
        library.capitalize_first_letter,
        library.replace_characters,
    )
    recommended = library.model_recommended_frames_after_eos
    after_end = guessed + 2 if recommended is None else recommended
    tokens = library.flow_lm.conditioner.prepare(text)
    most_frames = library._estimate_max_gen_len(tokens.shape[1])
    length = library._flow_lm_current_end(state) + tokens.shape[1] + most_frames
    library._expand_kv_cache(state, sequence_length=length)
    library._run_flow_lm_and_increment_step(model_state=state, text_tokens=tokens)
    decoding = Decoding(
        init_states(library.mimi, batch_size=1, sequence_length=most_frames * _steps_a_frame(library))
    )
    latent = torch.full(
        (1, 1, library.flow_lm.ldim), float("nan"), device=library.device, dtype=library.flow_lm.dtype
    )
    ends: int | None = None
    for number in range(most_frames):
        latent, is_end = library._run_flow_lm_and_increment_step(
            model_state=state, backbone_input_latents=latent
        )
        if ends is None and number >= library._MIN_FRAMES_BEFORE_EOS and bool(is_end.item()):
            ends = number + after_end
        if ends is not None and number >= ends:
            return
        yield latent, decoding


def decode(library: "TTSModel", latent: torch.Tensor, decoding: Decoding) -> Samples:
    """float32 [samples of a frame]; may run beside the next latent's making, which shares nothing with it."""
    from pocket_tts.modules.stateful_module import increment_steps

    flow, mimi = library.flow_lm, library.mimi
    with torch.no_grad():
        sound = mimi.decode_from_latent(latent * flow.emb_std + flow.emb_mean, decoding.state)
        increment_steps(mimi, decoding.state, increment=_steps_a_frame(library))
    samples: Samples = sound[0, 0].float().cpu().numpy().copy()
    if decoding.fresh:
        decoding.fresh = False
        count = min(samples.size, round(_FADE_S * library.sample_rate))
        samples[:count] *= np.linspace(0, 1, count, dtype=np.float32)
    return np.clip(samples, -1, 1)


def _steps_a_frame(library: "TTSModel") -> int:
    return int(library.mimi.encoder_frame_rate / library.mimi.frame_rate)
