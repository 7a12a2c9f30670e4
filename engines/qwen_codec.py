"""Qwen3-TTS's codec a frame at a time: exactly what it decodes in one go, without decoding anything twice.

It is causal: each convolution needs a few samples of what came before, the transformer the last frames' keys and
values. That is all the state of an utterance.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from engines.contract import EngineUnavailable


@dataclass(slots=True)
class CodecState:
    """Of one utterance."""

    parts: list[Tensor]
    """[1, ...] each, in the order in which the decoder comes by them; replaced, never written to."""
    frames: int = 0
    """Decoded so far."""

    def copy(self) -> "CodecState":
        return CodecState(self.parts, self.frames)


class Codec:
    def __init__(self, decoder: Any) -> None:
        """`decoder`: of the library's speech tokenizer. Raises EngineUnavailable for one of another kind."""
        self._decoder = decoder
        self._transformer = decoder.pre_transformer
        self._window = int(decoder.config.sliding_window)
        self.frame_samples = int(decoder.total_upsample)
        for module in decoder.modules():
            if type(module).__name__.endswith("CausalTransConvNet"):
                stride, kernel = module.conv.stride[0], module.conv.kernel_size[0]
                if kernel not in (stride, 2 * stride):
                    raise EngineUnavailable(
                        f"a codec with kernels of {kernel} over {stride} can't be streamed"
                    )
        self._silence = self._before_the_first()

    def _before_the_first(self) -> list[Tensor]:
        """Zeros, as the decoder itself pads."""
        past = _Past(None)
        codes = torch.zeros(1, self._decoder.config.num_quantizers, 1, dtype=torch.int64)
        with torch.inference_mode():
            self._forward(codes.to(self._decoder.device), past, [0])
            return [torch.zeros_like(part) for part in past.left]

    def fresh(self) -> CodecState:
        return CodecState(self._silence)

    def decode(self, codes: Tensor, states: Sequence[CodecState]) -> Tensor:
        """int64 [rows, groups, frames] to float32 [rows, samples]; moves the states on."""
        with torch.inference_mode():
            past = _Past(_joined([state.parts for state in states]))
            samples = self._forward(codes, past, [state.frames for state in states])
        for row, state in enumerate(states):
            state.parts = [part[row : row + 1] for part in past.left]
            state.frames += codes.shape[-1]
        return samples[:, 0].float()

    def _forward(self, codes: Tensor, past: "_Past", frames: Sequence[int]) -> Tensor:
        decoder = self._decoder
        hidden = decoder.quantizer.decode(codes)
        hidden = _conv(decoder.pre_conv, hidden, past).transpose(1, 2)
        hidden = self._attend(hidden, past, frames).transpose(1, 2)
        for widen, block in decoder.upsample:
            hidden = _convnext(block, _widen(widen, hidden, past), past)
        for module in decoder.decoder:
            hidden = _through(module, hidden, past)
        return hidden.clamp(min=-1, max=1)

    def _attend(self, hidden: Tensor, past: "_Past", frames: Sequence[int]) -> Tensor:
        network = self._transformer
        hidden = network.input_proj(hidden)
        count = hidden.shape[1]
        first = torch.tensor(frames, device=hidden.device)[:, None]
        positions = first + torch.arange(count, device=hidden.device)
        mask = self._mask(first, count)
        turned = network.rotary_emb(hidden, positions)
        cache = _Window(past, self._window - 1)
        for layer in network.layers[: network.config.num_hidden_layers]:
            hidden = layer(
                hidden, attention_mask=mask, past_key_values=cache, use_cache=True, position_embeddings=turned
            )
        return network.output_proj(network.norm(hidden))

    def _mask(self, known: Tensor, count: int) -> Tensor:
        """Truth [rows, 1, new, past + new]: the window that ends at each new frame, as far as there are frames."""
        past = self._window - 1
        new = torch.arange(count, device=known.device)[:, None]
        key = torch.arange(past + count, device=known.device)
        window = (key >= new) & (key <= new + past)
        return (window & (key >= past - known[:, None]))[:, None]


class _Past:
    """What each stateful place was left with, given out in the order in which it was kept."""

    def __init__(self, before: list[Tensor] | None) -> None:
        self._before: Iterator[Tensor] | None = None if before is None else iter(before)
        self.left: list[Tensor] = []

    def join(self, new: Tensor, keep: int, dim: int = -1) -> Tensor:
        """`new` behind the `keep` before it; the last `keep` of both are left for the next time."""
        if self._before is None:
            shape = list(new.shape)
            shape[dim] = keep
            before = new.new_zeros(shape)
        else:
            before = next(self._before)
        both = torch.cat([before, new], dim)
        self.left.append(both.narrow(dim, both.shape[dim] - keep, keep))
        return both


class _Window:
    """A cache as the layers of transformers take it."""

    def __init__(self, past: _Past, keep: int) -> None:
        self._past = past
        self._keep = keep

    def update(self, keys: Tensor, values: Tensor, *_: object) -> tuple[Tensor, Tensor]:
        return self._past.join(keys, self._keep, -2), self._past.join(values, self._keep, -2)


def _joined(rows: Sequence[list[Tensor]]) -> list[Tensor]:
    if len(rows) == 1:
        return rows[0]
    return [torch.cat(parts) for parts in zip(*rows, strict=True)]


def _through(module: Any, hidden: Tensor, past: _Past) -> Tensor:
    kind = type(module).__name__
    if kind.endswith("CausalConvNet"):
        return _conv(module, hidden, past)
    if kind.endswith("CausalTransConvNet"):
        return _widen(module, hidden, past)
    if kind.endswith("DecoderBlock"):
        for part in module.block:
            hidden = _through(part, hidden, past)
        return hidden
    if kind.endswith("ResidualUnit"):
        inner = _conv(module.conv1, module.act1(hidden), past)
        return _conv(module.conv2, module.act2(inner), past) + hidden
    return module(hidden)


def _conv(module: Any, hidden: Tensor, past: _Past) -> Tensor:
    if module.padding:
        hidden = past.join(hidden, module.padding)
    return module.conv(hidden)


def _widen(module: Any, hidden: Tensor, past: _Past) -> Tensor:
    """Each input reaches its own stretch of the output and, where the kernel is twice as long, the next one's."""
    stride, count = module.conv.stride[0], hidden.shape[-1]
    if not module.right_pad:
        return module.conv(hidden)
    wide: Tensor = module.conv(past.join(hidden, 1))
    return wide[..., stride : stride + count * stride]


def _convnext(module: Any, hidden: Tensor, past: _Past) -> Tensor:
    inner = _conv(module.dwconv, hidden, past).transpose(1, 2)
    inner = module.pwconv2(module.act(module.pwconv1(module.norm(inner))))
    return hidden + (module.gamma * inner).transpose(1, 2)
