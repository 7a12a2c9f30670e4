"""A piece of text that is spoken in one go."""

from dataclasses import dataclass, replace
from typing import Literal

Cut = Literal["sentence", "clause", "flush", "end", "wait", "forced", "cap", "growth"]


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
    """Why it ends here. Only "forced" depends on time rather than on the text alone (and "wait" on its gaps); "growth"
    is no end, but what is known of a segment before it ends."""

    def rest(self, chars: int) -> "TextSegment | None":
        """Without its first code points and the white space after them; None: nothing is left."""
        while chars < len(self.speakable) and self.speakable[chars].isspace():
            chars += 1
        if chars >= len(self.speakable):
            # What grew had the white space after its words, which a segment that is cut hasn't.
            return None
        return replace(
            self,
            start_char=self.source_chars[chars],
            speakable=self.speakable[chars:],
            source_chars=self.source_chars[chars:],
        )
