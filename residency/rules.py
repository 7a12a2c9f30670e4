"""What an operator can set about the device."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from residency.planner import MemoryRules, Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    engine_threads: int = 1
    """Lanes of a CPU; an accelerator has one."""
    max_load: float = 0.8
    """The part of a lane's time that may be promised to live listeners."""
    max_streams: int | None = None
    """Slots; None: what the measured cost allows."""
    max_queue: int = 64
    queue_wait_s: float = 30.0
    max_step_s: float = 0.5
    """No step should take longer while others wait."""
    stall_s: float = 30.0
    """A step that takes longer, and longer than `stall_ratio` times its estimate, has stalled."""
    stall_ratio: float = 10.0
    load_s: float = 600.0
    """The same for a load."""
    canary_s: float = 300.0
    """A model that hasn't spoken for so long is asked to, unheard."""
    crowd: int = 8
    """So many streams at once need memory that fewer don't."""
    tidy_s: float = 3.0
    """After so long without a step, and with nobody to make one for, a lane gives a crowd's memory back. Not that of
    a few: the next to speak needs it again, and has no time to lose."""
    preload: tuple[str, ...] = ()
    """Units that every lane of their device loads before it serves."""
    live_prompt_bytes: int = 256 << 20
    """Prompts of uploaded voices that each lane keeps in memory for each unit, by their stored size."""
    policies: Mapping[str, Policy] = field(default_factory=dict)
    """Of units that aren't UNPINNED."""
    memory: Mapping[str, MemoryRules] = field(default_factory=dict)
    """By device; of another one all the memory may be taken."""
    footprints_file: Path | None = None
    """Where measured footprints are remembered."""

    def memory_of(self, device: str) -> MemoryRules:
        return self.memory.get(device, MemoryRules())
