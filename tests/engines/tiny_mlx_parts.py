"""What tiny checkpoints for mlx-audio have in common: a tokenizer of bytes, JSON files, recordings."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers


def write_json(file: Path, value: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value), "utf-8")


def write_tokenizer(
    folder: Path,
    *,
    words: Sequence[str] = (),
    special: Sequence[str] = (),
    roles: Mapping[str, str] | None = None,
) -> dict[str, int]:
    """A token for each byte, and those that are given.

    Returns what each special token became, and how many tokens there are by the name "".
    """
    bytes_of = {letter: index for index, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=bytes_of, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in words])
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    if roles is not None:
        named = {f"{role}_token": token for role, token in roles.items()}
        write_json(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", **named})
    whole = tokenizer.get_vocab(with_added_tokens=True)
    return {"": len(whole)} | {token: whole[token] for token in special}


def write_recording(
    file: Path, *, seconds: float = 1.0, rate_hz: int = 24000, tone_hz: float = 220.0
) -> Path:
    """Not a plain sine: a network would hear it as silence with a line in it."""
    noise = np.random.default_rng(round(tone_hz)).standard_normal(round(seconds * rate_hz))
    sine = np.sin(2 * np.pi * tone_hz * np.arange(noise.size) / rate_hz)
    soundfile.write(file, (0.3 * sine + 0.05 * noise).astype(np.float32), rate_hz)
    return file
