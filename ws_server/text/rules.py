"""What a deployment, an engine and a client may set about how text is cut."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SegmentRules:
    """Lengths are counted in speakable code points: without markup."""

    wait_ms: float = 300.0
    """A tail that ends in sentence punctuation is a sentence after this long without an increment."""
    stall_ms: float = 1500.0
    """A tail that doesn't is spoken after this long, up to its last white space."""
    max_chars: int = 240
    """No segment is longer; 0: no cap of the engine's, and text without any boundary still ends somewhere."""
    max_sentences: int = 0
    """0: as many as are joined."""
    join_chars: int = 20
    """A sentence shorter than this is joined with the next of its paragraph."""
    first_words: int = 8
    first_chars: int = 40
    """So much without punctuation, and the first segment ends at the best word."""
    first_clause_words: int = 4
    """A clause mark ends the first segment after so many words."""
    grows: bool = False
    """The engine takes a segment's words while it speaks: none has to be short to begin soon."""
