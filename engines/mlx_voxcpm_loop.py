"""VoxCPM's own loop, one patch at a time: the library runs it to the end before it gives any sound."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

from engines.contract import Samples
from engines.mlx_runtime import Array, numbers

_START, _REFERENCE_START, _REFERENCE_END = 101, 103, 104
_CONTEXT_PATCHES = 3
"""Of a recording that is continued: the decoder hears its last ones first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """Patches of latents, [patches, patch, latent]; None: nothing of the kind."""

    reference: Array | None = None
    """Who speaks (VoxCPM 2)."""
    continued: Array | None = None
    """What was said last."""


@dataclass(slots=True)
class _Sequence:
    """What the network reads: tokens and latents, one of them at each place."""

    tokens: list[Array] = field(default_factory=list)
    latents: list[Array] = field(default_factory=list)
    is_text: list[Array] = field(default_factory=list)

    def text(self, ids: list[int], latent: tuple[int, int]) -> None:
        import mlx.core as mx

        self.tokens.append(mx.array(ids, dtype=mx.int32))
        self.latents.append(mx.zeros((len(ids), *latent)))
        self.is_text.append(mx.ones(len(ids)))

    def audio(self, latents: Array) -> None:
        import mlx.core as mx

        self.tokens.append(mx.zeros(latents.shape[0], dtype=mx.int32))
        self.latents.append(latents)
        self.is_text.append(mx.zeros(latents.shape[0]))


@dataclass(slots=True)
class _State:
    hidden: Array
    residual: Array
    condition: Array
    """The patch before."""
    cache: Any
    residual_cache: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a request is to be spoken."""

    cfg_value: float
    timesteps: int
    least_patches: int
    most_patches: int


def patches(library: Any, ids: list[int], voice: Voice, manner: Manner, *, second: bool) -> Iterator[Array]:
    """Yields latents, [1, patch, latent], until the network says that it has ended."""
    import mlx.core as mx
    from mlx import nn

    state = _read(library, ids, voice, second=second)
    for number in range(manner.most_patches):
        mu = [library.lm_to_dit_proj(state.hidden), library.res_to_dit_proj(state.residual)]
        patch = library.feat_decoder.sample(
            mu=mx.concatenate(mu, axis=-1) if second else mu[0] + mu[1],
            n_timesteps=manner.timesteps,
            patch_size=library.patch_size,
            cond=state.condition.transpose(0, 2, 1),
            cfg_value=manner.cfg_value,
        ).transpose(0, 2, 1)
        stop = mx.argmax(library.stop_head(nn.silu(library.stop_proj(state.hidden))), axis=-1)
        mx.eval(patch, stop)
        yield patch
        if number > manner.least_patches and stop.item() == 1:
            return
        _go_on(library, state, patch, second=second)


def _read(library: Any, ids: list[int], voice: Voice, *, second: bool) -> _State:
    import mlx.core as mx

    latent = (library.patch_size, library.feat_dim)
    sequence = _Sequence()
    if voice.reference is not None:
        sequence.text([_REFERENCE_START], latent)
        sequence.audio(voice.reference)
        sequence.text([_REFERENCE_END], latent)
    sequence.text([*ids, _START], latent)
    if voice.continued is not None:
        sequence.audio(voice.continued)
    tokens = mx.concatenate(sequence.tokens)[None]
    latents = mx.concatenate(sequence.latents)[None]
    text = mx.concatenate(sequence.is_text)[None, :, None]
    return _prefilled(
        library, tokens, latents, text, plain=not second and voice.continued is None, second=second
    )


def _prefilled(
    library: Any, tokens: Array, latents: Array, text: Array, *, plain: bool, second: bool
) -> _State:
    """`plain`: the first VoxCPM reads a text without a recording in another way than one with."""
    import mlx.core as mx

    config = library.args.lm_config
    # The two generations take this setting in opposite senses.
    words = library.base_lm.embed_tokens(tokens) * (config.scale_emb if config.use_mup == second else 1.0)
    condition = latents[:, -1]
    if plain:
        read, cache = library.base_lm(words)
        residual, residual_cache = library.residual_lm(read)
        return _State(library.fsq_layer(read[:, -1]), residual[:, -1], condition, cache, residual_cache)
    audio = 1 - text
    heard = library.enc_to_lm_proj(library.feat_encoder(latents))
    read, cache = library.base_lm(text * words + audio * heard)
    read = library.fsq_layer(read) * audio + read * text
    residual_input = (
        library.fusion_concat_proj(mx.concatenate([read, audio * heard], axis=-1))
        if second
        else read + audio * heard
    )
    residual, residual_cache = library.residual_lm(residual_input)
    return _State(read[:, -1], residual[:, -1], condition, cache, residual_cache)


def _go_on(library: Any, state: _State, patch: Array, *, second: bool) -> None:
    import mlx.core as mx

    heard = library.enc_to_lm_proj(library.feat_encoder(patch[:, None]))
    read, state.cache = library.base_lm(inputs_embeds=heard, cache=state.cache)
    state.hidden = library.fsq_layer(read[:, -1])
    hidden = state.hidden[:, None]
    residual_input = (
        library.fusion_concat_proj(mx.concatenate([hidden, heard], axis=-1)) if second else hidden + heard
    )
    residual, state.residual_cache = library.residual_lm(
        inputs_embeds=residual_input, cache=state.residual_cache
    )
    state.residual = residual[:, -1]
    state.condition = patch


class Decoding:
    """Patches to sound: the decoder looks back a fixed way, so each piece is decoded with what it looks back on."""

    def __init__(self, library: Any, voice: Voice, *, second: bool) -> None:
        self._decode = library.audio_vae.decode
        self._patch = library.patch_size
        rates = list(library.args.audio_vae_config.decoder_rates)
        self._hop_samples = prod(rates)
        self._context = -(-_latents_back(rates) // self._patch)
        self._before: list[Array] = []
        if second and voice.continued is not None:
            self._before = [patch[None] for patch in voice.continued[-_CONTEXT_PATCHES:]]

    def samples(self, group: list[Array]) -> Samples:
        import mlx.core as mx

        together = [*self._before, *group]
        sound = self._decode(mx.concatenate(together, axis=1)).reshape(-1)
        # An odd rate leaves some samples over at the end of each decoding.
        first, last = (
            count * self._patch * self._hop_samples for count in (len(self._before), len(together))
        )
        self._before = together[-self._context :]
        return numbers(sound[first:last])


def _latents_back(rates: list[int]) -> int:
    """How far the decoder looks: kernels of 7 at the ends, in each block a transposed one of two strides and three of
    7 with dilations 1, 3 and 9.
    """
    back, rate = 6.0, 1
    for up in rates:
        back += 1 / rate
        rate *= up
        back += 6 * (1 + 3 + 9) / rate
    return int(back + 6 / rate) + 1
