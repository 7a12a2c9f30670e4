"""How much a client may ask for, and how long things may last."""

from dataclasses import dataclass
from typing import Final

from protocol.messages import WireLimits

TRANSPORT_MESSAGE_BYTES: Final = 4 << 20
"""Beyond it the WebSocket layer closes with 1009."""
FRAME_BYTES: Final = 65_536
"""An `audio` message's samples stay below."""
LONGEST_WAIT_MS: Final = 60_000
"""So much counts of an `open`'s cushion_ms and wait_ms: with more an utterance would keep its slot, or its text, for
days."""
BAD_MESSAGES_IN_A_ROW: Final = 5
PLAYED_PER_S: Final = 20
"""More reports are merged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Configurable; those of `wire()` are told to every client in `hello`."""

    utterances: int = 256
    """Open at once on one connection."""
    text_chars: int = 100_000
    """One increment."""
    total_chars: int = 1_000_000
    """The whole text of one utterance: about 18 hours of speech."""
    message_bytes: int = 524_288
    """One message as it travels; room for text_chars of any script."""
    queue: int = 64
    """Utterances of all connections that may wait for a slot."""
    idle_s: float = 300
    """A connection with nothing open and no message is closed."""
    utterance_idle_s: float = 120
    """An utterance that isn't ended, has spoken all its text and receives nothing is ended."""
    queue_wait_s: float = 30
    """The longest wait for a slot."""
    lead_ms: float = 30_000
    """The most that a client may ask for as its lead; 0, a rendering, isn't bound by it."""
    receipt_s: float = 60
    """How long after `done` with `complete` it can still be asked what was heard."""
    wait_ms: float = 300
    """The wait bound of an `open` that doesn't give one."""

    lead_ms_default: float = 3000
    """The lead of an `open` that doesn't give one."""
    cushion_ms: float = 200
    """The cushion of an `open` that doesn't give one."""
    stall_ms: float = 1500
    """Silence after which a tail without sentence punctuation is spoken."""
    receipts: int = 1024
    """Finished utterances of one connection that are remembered for receipt_s; the oldest go first."""
    pending_flushes: int = 256
    """Flushes of one utterance that aren't answered yet."""
    unsent_ends: int = 4096
    """`done` and `heard` that wait for a client who doesn't read; past that it is closed with 1008."""

    def wire(self) -> WireLimits:
        return WireLimits(**{name: getattr(self, name) for name in WireLimits.__struct_fields__})
