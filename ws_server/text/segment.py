"""A piece of text that is spoken in one go."""

from dataclasses import dataclass
from typing import Literal

Cut = Literal["sentence", "clause", "flush", "end", "wait", "forced", "cap"]


@dataclass(frozen=True, slots=True)
class TextSegment:
    start_char: int
    """Code points of the client's whole text; white space at both ends is left out."""
    end_char: int
    speakable: str
    """What is spoken: no markup, odd spaces made plain. Never blank."""
    source_chars: tuple[int, ...]
    """For each code point of `speakable` the code point of the client's text that it came from, and one more
    entry for its end; never falls."""
    cut: Cut
    """Why it ends here. Only "forced" depends on time rather than on the text alone (and "wait" on its gaps)."""
