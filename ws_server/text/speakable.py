"""The speakable copy of a client's text, with the way back from each of its characters."""

from ws_server.text.characters import Role, role

BREAK = "\n"
"""In the copy: a paragraph, a list item, a heading, a table row ends here. Never spoken."""


class SpeakableCopy:
    """Grows at its end, is taken away at its front; white space is collapsed to one plain space."""

    __slots__ = ("_last_word", "ends", "last", "starts", "text")

    def __init__(self) -> None:
        self.text = ""
        self.starts: list[int] = []
        """Where in the client's text each character comes from, and"""
        self.ends: list[int] = []
        """where it ends there."""
        self.last = BREAK
        """The last character, also when it has been taken."""
        self._last_word = BREAK

    def put(self, char: str, start: int, end: int) -> None:
        """Any one character of the client's text; what isn't spoken is left out or made plain."""
        match role(char, self.last):
            case Role.SPOKEN:
                self.put_as_it_is(char, start, end)
            case Role.SPACE:
                self.space(start)
            case Role.MARK if self.last not in " \n":
                self.put_as_it_is(char, start, end)
            case Role.SILENT_MARK if self.ends and self.last not in " \n":
                self.ends[-1] = end
            case _:
                pass

    def put_as_it_is(self, char: str, start: int, end: int) -> None:
        self.text += char
        self.starts.append(start)
        self.ends.append(end)
        self.last = char
        if char != " ":
            self._last_word = char

    def put_run(self, run: str, start: int) -> None:
        """Characters that are known to be spoken, with at most single spaces between them."""
        end = start + len(run)
        self.text += run
        self.starts.extend(range(start, end))
        self.ends.extend(range(start + 1, end + 1))
        self.last = self._last_word = run[-1]

    def space(self, at: int) -> None:
        if self.last not in " \n":
            self.put_as_it_is(" ", at, at + 1)

    def comma(self, at: int) -> None:
        """A pause that the client drew rather than wrote, as between the cells of a table."""
        if self._last_word.isalnum() or self._last_word in "%)\"'”’":
            self.put_as_it_is(",", at, at + 1)
        self.space(at)

    def paragraph(self, at: int) -> None:
        if self.last != BREAK:
            self.put_as_it_is(BREAK, at, at + 1)

    def take(self, count: int) -> None:
        """Forget that many characters at the front."""
        if count:
            self.text = self.text[count:]
            del self.starts[:count]
            del self.ends[:count]
