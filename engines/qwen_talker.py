"""The two networks of Qwen3-TTS that write speech down as codes, a frame of 80 ms at a time.

The library's own loop belongs to one call: it ends when the utterance does, and keeps positions on the model. Here the
same layers are run by whoever steps, for any of the open utterances together: each has its keys and values in a slot,
its own position, its own randomness. Nothing of the library is written to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from engines.qwen_cache import KeyValues
from engines.qwen_sampling import FirstBook, Rules, choose


@dataclass(slots=True, eq=False)
class Utterance:
    """What the talker knows of one: made by `Talker.open`."""

    slot: int
    random: torch.Generator
    rules: Rules
    rest_rules: Rules
    penalty: float
    most_frames: int
    text: Tensor
    """[1, tokens, width]: what is read along with the frames, then `padding` for each."""
    padding: Tensor
    upcoming: Tensor | None
    """[1, n, width]: what goes in next; None: it has gone in, and `hidden` came out."""
    seen: Tensor
    """[1, tokens]: which it has had."""
    hidden: Tensor = field(init=False)
    known: int = 0
    """Positions in its slot."""
    frames: int = 0
    over: bool = False

    def word(self) -> Tensor:
        """[1, 1, width]: what is read with the frame that was made last."""
        at = self.frames - 1
        return self.text[:, at : at + 1] if at < self.text.shape[1] else self.padding


class Talker:
    def __init__(self, talker: Any, *, most_open: int) -> None:
        self._talker = talker
        self._device: torch.device = talker.device
        config = talker.config
        self._groups = int(config.num_code_groups)
        self._cache = KeyValues(layers=len(talker.model.layers), slots=most_open)
        self._turns = self._rest_turns()
        self._first: FirstBook | None = None

    @property
    def free(self) -> int:
        return self._cache.free

    def open(self, inputs: Mapping[str, Any], random: torch.Generator, most_frames: int) -> Utterance:
        """`inputs`: what the library's talker.generate is called with."""
        if self._first is None:
            self._first = FirstBook(
                tokens=int(self._talker.config.vocab_size),
                end=inputs["eos_token_id"],
                suppressed=inputs["suppress_tokens"],
                device=self._device,
            )
        first = [inputs[name] for name in ("do_sample", "temperature", "top_k", "top_p")]
        rest = [inputs[f"subtalker_{name}"] for name in ("dosample", "temperature", "top_k", "top_p")]
        return Utterance(
            slot=self._cache.take(),
            random=random,
            rules=Rules.of(*first),
            rest_rules=Rules.of(*rest),
            penalty=float(inputs["repetition_penalty"]),
            most_frames=most_frames,
            text=inputs["trailing_text_hidden"],
            padding=inputs["tts_pad_embed"],
            upcoming=inputs["inputs_embeds"],
            seen=self._first.unseen(),
        )

    def close(self, utterance: Utterance) -> None:
        if utterance.slot >= 0:
            self._cache.give_back(utterance.slot)
        utterance.slot = -1
        utterance.over = True

    def advance(self, utterances: Sequence[Utterance]) -> list[Tensor | None]:
        """The next frame's codes, int64 [groups], of each; None: it ends here."""
        with torch.inference_mode():
            return self._advance(utterances)

    def _advance(self, utterances: Sequence[Utterance]) -> list[Tensor | None]:
        self._read(utterances)
        tokens = self._draw(utterances)
        ends = (tokens == self._book.end).tolist()
        going = [row for row, end in enumerate(ends) if not end]
        for row, utterance in enumerate(utterances):
            utterance.over = ends[row]
        if not going:
            return [None] * len(utterances)
        codes = self._rest([utterances[row] for row in going], tokens[going])
        found: list[Tensor | None] = [None] * len(utterances)
        for row, code in zip(going, codes, strict=True):
            found[row] = code
        return found

    @property
    def _book(self) -> FirstBook:
        assert self._first is not None  # noqa: S101 - `open` has seen to it
        return self._first

    # The first network: one token for a frame -----------------------------------------------------------------

    def _read(self, utterances: Sequence[Utterance]) -> None:
        """What goes in next: all that an utterance begins with by itself, then single frames together."""
        together: list[tuple[Utterance, Tensor]] = []
        for utterance in utterances:
            upcoming = utterance.upcoming
            if upcoming is None:
                continue
            if utterance.known == 0:
                self._begin(utterance, upcoming)
            else:
                together.append((utterance, upcoming))
        if not together:
            return
        rows = [utterance for utterance, _ in together]
        inputs = torch.cat([upcoming for _, upcoming in together])
        positions, mask = self._cache.aim(
            [each.slot for each in rows], [each.known for each in rows], self._device
        )
        hidden = self._pass(inputs, positions, mask)
        for row, utterance in enumerate(rows):
            self._keep(utterance, hidden[row : row + 1], 1)

    def _begin(self, utterance: Utterance, inputs: Tensor) -> None:
        self._cache.aim_at_start(utterance.slot)
        count = inputs.shape[1]
        hidden = self._pass(inputs, torch.arange(count, device=self._device)[None], None)
        self._keep(utterance, hidden[:, -1:], count)

    def _keep(self, utterance: Utterance, hidden: Tensor, count: int) -> None:
        utterance.known += count
        utterance.upcoming = None
        utterance.hidden = hidden

    def _pass(self, inputs: Tensor, positions: Tensor, mask: Tensor | None) -> Tensor:
        network = self._talker.model
        turned = network.rotary_emb(inputs, positions.expand(3, -1, -1))
        return _layers(network, inputs, mask, self._cache, turned)

    def _draw(self, utterances: Sequence[Utterance]) -> Tensor:
        hidden = torch.cat([each.hidden for each in utterances])
        scores = self._talker.codec_head(hidden)[:, -1].float()
        seen = torch.cat([each.seen for each in utterances])
        penalties, counts = [each.penalty for each in utterances], [each.frames for each in utterances]
        scores = self._book.allow(scores, seen, penalties, counts)
        tokens = choose(scores, [each.rules for each in utterances], [each.random for each in utterances])
        for row, utterance in enumerate(utterances):
            utterance.seen.scatter_(1, tokens[row : row + 1, None], value=True)
        return tokens

    # The second: the rest of a frame -------------------------------------------------------------------------

    def _rest(self, utterances: Sequence[Utterance], first: Tensor) -> Tensor:
        """int64 [rows, groups]; leaves with each utterance what goes into the first network next."""
        from transformers import DynamicCache

        predictor = self._talker.code_predictor
        embedded = [self._talker.model.codec_embedding(first[:, None])]
        hidden = torch.cat([each.hidden for each in utterances])
        inputs = torch.cat([hidden, embedded[0]], dim=1)
        rules, randoms = [each.rest_rules for each in utterances], [each.random for each in utterances]
        codes, cache = [first], DynamicCache()
        for group in range(self._groups - 1):
            inputs = predictor.small_to_mtp_projection(inputs)
            hidden = _layers(predictor.model, inputs, None, cache, self._turns[group])
            scores = predictor.lm_head[group](hidden[:, -1]).float()
            codes.append(choose(scores, rules, randoms))
            inputs = predictor.model.codec_embedding[group](codes[-1][:, None])
            embedded.append(inputs)
        summed = torch.cat(embedded, dim=1).sum(1, keepdim=True)
        for row, utterance in enumerate(utterances):
            utterance.frames += 1
            utterance.upcoming = summed[row : row + 1] + utterance.word()
        return torch.stack(codes, dim=1)

    def _rest_turns(self) -> list[Any]:
        """A frame's positions are always the same: two, then one by one."""
        predictor = self._talker.code_predictor
        like = predictor.lm_head[0].weight
        stretches = [(0, 2), *((at, at + 1) for at in range(2, self._groups))]
        with torch.inference_mode():
            return [
                predictor.model.rotary_emb(like, torch.arange(start, end, device=self._device)[None])
                for start, end in stretches
            ]


def _layers(network: Any, hidden: Tensor, mask: Tensor | None, cache: Any, turned: Any) -> Tensor:
    """Through the layers of one of the networks; without a mask a row sees all that came before each position."""
    for layer in network.layers:
        hidden = layer(
            hidden, attention_mask=mask, past_key_values=cache, use_cache=True, position_embeddings=turned
        )[0]
    return network.norm(hidden)
