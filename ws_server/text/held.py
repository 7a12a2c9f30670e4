"""The client's text that has come and hasn't been read yet."""


class Held:
    __slots__ = ("_before", "start", "text")

    def __init__(self) -> None:
        self.text = ""
        self.start = 0
        """Where `text` begins in the client's whole text."""
        self._before = "\n"

    def previous(self, at: int) -> str:
        """The character before `text[at]`, also when it has been read."""
        return self.text[at - 1] if at else self._before

    def source(self, at: int) -> int:
        return self.start + at

    def drop(self, count: int) -> None:
        """That many have been read."""
        if count:
            self._before = self.text[count - 1]
            self.text = self.text[count:]
            self.start += count
