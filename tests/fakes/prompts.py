"""A store of prompts in memory that counts what is asked of it and fails where it is told to."""

from dataclasses import dataclass, field

import numpy as np

from voices.errors import VoiceMissing
from voices.reference import Clone, Reference

RATE_HZ = 24000


@dataclass
class MemoryPrompts:
    """A clone's recording is a tone of the frequency that its id names."""

    kept: dict[Clone, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    """The ids of the recordings that were asked for: each stands for a computed prompt."""
    missing: set[str] = field(default_factory=set)

    def stored(self, clone: Clone) -> bytes | None:
        return self.kept.get(clone)

    def keep(self, clone: Clone, prompt: bytes) -> None:
        self.kept[clone] = prompt

    def reference(self, clone: Clone) -> Reference:
        if clone.voice_id in self.missing:
            raise VoiceMissing(clone.voice_id)
        self.asked.append(clone.voice_id)
        time_s = np.arange(RATE_HZ) / RATE_HZ
        samples = np.sin(2 * np.pi * float(clone.voice_id) * time_s).astype(np.float32)
        return Reference(samples, RATE_HZ, None, None)
