"""Texts to measure with."""

import re
from pathlib import Path

from saystream.load import replies
from ws_server.text import SegmentRules, TextPath

_PATH = Path(__file__).parent / "data" / "replies.txt"
_SENTENCE = re.compile(r"[A-Z][^.!?*_`#\n]{20,120}[.!?](?= |$)")


def corpus() -> tuple[str, ...]:
    return replies.read(_PATH)


def sentences() -> list[str]:
    """Plain ones: each is its own segment, with or without a server."""
    return [match.group() for reply in corpus() for match in _SENTENCE.finditer(reply)]


def segments() -> list[str]:
    """Those that the server cuts the corpus into."""
    found = []
    for reply in corpus():
        path = TextPath(SegmentRules(), markup="markdown", language="en-US")
        found += [segment.speakable for segment in (*path.feed(reply), *path.end())]
    return found


FIFTEEN_WORDS = (
    "The little boat drifted slowly past the old stone bridge before anyone noticed it there.",
    "She opened the heavy wooden door and found her brother asleep on the kitchen floor.",
    "My neighbour says that the new bakery around the corner sells the best bread anywhere.",
    "We should leave before seven because the last train home is always full on Fridays.",
    "Nobody in the whole office knew where the second meeting room keys had been kept.",
)
