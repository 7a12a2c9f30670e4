"""Which token comes next: the library's own rules, with the randomness of each utterance its own."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Rules:
    """Of one of the two networks that draw."""

    samples: bool
    temperature: float
    top_k: int
    top_p: float

    @classmethod
    def of(cls, samples: bool, temperature: float, top_k: int | None, top_p: float | None) -> "Rules":
        """A temperature of 0 is the likeliest."""
        if not samples or temperature == 0:
            return cls(False, 1.0, 0, 1.0)
        return cls(True, float(temperature), top_k or 0, 1.0 if top_p is None else float(top_p))


def choose(scores: Tensor, rules: Sequence[Rules], randoms: Sequence[torch.Generator]) -> Tensor:
    """float32 [rows, tokens] to int64 [rows]; each row by its own rules and randomness."""
    if len(set(rules)) == 1:
        return _choose(scores, rules[0], randoms)
    chosen = torch.empty(len(rules), dtype=torch.int64, device=scores.device)
    for rule in set(rules):
        rows = [row for row, each in enumerate(rules) if each == rule]
        chosen[rows] = _choose(scores[rows], rule, [randoms[row] for row in rows])
    return chosen


def _choose(scores: Tensor, rules: Rules, randoms: Sequence[torch.Generator]) -> Tensor:
    if not rules.samples:
        return scores.argmax(-1)
    if rules.temperature != 1:
        scores = scores / rules.temperature
    if 0 < rules.top_k < scores.shape[-1]:
        least = scores.topk(rules.top_k, dim=-1).values[:, -1:]
        scores = scores.masked_fill(scores < least, -torch.inf)
    if rules.top_p < 1:
        scores = _nucleus(scores, rules.top_p)
    # What torch.multinomial does for one draw, but with another generator for each row.
    noise = torch.empty_like(scores)
    for row, random in enumerate(randoms):
        noise[row : row + 1].exponential_(generator=random)
    return scores.softmax(-1).div_(noise).argmax(-1)


def _nucleus(scores: Tensor, top_p: float) -> Tensor:
    """The likeliest tokens that together have the probability `top_p`; at least one."""
    ascending, order = scores.sort(descending=False, dim=-1)
    rest = ascending.softmax(-1).cumsum(-1) <= 1 - top_p
    rest[:, -1] = False
    return scores.masked_fill(rest.scatter(1, order, rest), -torch.inf)


class FirstBook:
    """The rules for the first codebook, which says how an utterance goes and when it ends."""

    def __init__(self, *, tokens: int, end: int, suppressed: Iterable[int], device: Any) -> None:
        self.end = end
        self._least_tokens = 2
        self._never = torch.zeros(1, tokens, dtype=torch.bool, device=device)
        self._never[0, [token for token in suppressed if token != end]] = True
        self._end = torch.zeros(1, tokens, dtype=torch.bool, device=device)
        self._end[0, end] = True
        self._either = self._never | self._end

    def unseen(self) -> Tensor:
        """Which tokens an utterance has had: none yet."""
        return torch.zeros_like(self._never)

    def allow(
        self, scores: Tensor, seen: Tensor, penalties: Sequence[float], counts: Sequence[int]
    ) -> Tensor:
        """float32 [rows, tokens]; `counts`: tokens that each row has had."""
        if any(penalty != 1 for penalty in penalties):
            same = len(set(penalties)) == 1
            penalty = penalties[0] if same else scores.new_tensor(penalties)[:, None]
            scores = torch.where(seen, torch.where(scores < 0, scores * penalty, scores / penalty), scores)
        never = [self._either if count < self._least_tokens else self._never for count in counts]
        return scores.masked_fill(torch.cat(never), -torch.inf)
