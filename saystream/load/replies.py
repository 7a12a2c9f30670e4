"""What the listeners of a load have read to them, token by token."""

import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

_TOKEN = re.compile(r"\s*\S{1,5}|\s+$")
"""A language model's tokens hold about four characters and begin with their space."""


def own() -> tuple[str, ...]:
    """A few that come with the package."""
    return _parse(files("saystream.load").joinpath("replies.txt").read_text(encoding="utf-8"))


def read(path: Path) -> tuple[str, ...]:
    """A reply each line, a line break in it written as backslash and n. Raises OSError, ValueError."""
    replies = _parse(path.read_text(encoding="utf-8"))
    if not replies:
        raise ValueError(f"{path} holds no replies")
    return replies


def tokens(reply: str) -> Sequence[str]:
    """Joined they are the reply."""
    return _TOKEN.findall(reply)


def _parse(text: str) -> tuple[str, ...]:
    return tuple(line.replace("\\n", "\n") for line in text.splitlines() if line.strip())
