"""By what a clip is found: everything that shaped its sound, as plain values."""

import hashlib
import json
from dataclasses import astuple, dataclass, fields

Plain = str | int | float | bool | None | tuple["Plain", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipKey:
    """Equal keys mean equal sound; made in one place, by whoever knows what an engine is told."""

    engine: str
    engine_version: str
    checkpoint: str
    sample_rate_hz: int
    exact_words: bool
    """Whether the clip has the engine's own word times."""
    guards: str
    """What is done to the samples between the engine and the cache."""
    text: str
    language: str
    voice: str
    """Its content: for a voice that can change, not its name."""
    speed: float
    seed: int
    options: Plain
    """Of the engine, by name."""

    @property
    def digest(self) -> str:
        """40 hexadecimal digits; another for any other key, also for 1 and 1.0, None and "None"."""
        named = list(zip((field.name for field in fields(self)), astuple(self), strict=True))
        # ASCII: lone surrogates and every script survive.
        return hashlib.blake2b(json.dumps(named, ensure_ascii=True).encode(), digest_size=20).hexdigest()
