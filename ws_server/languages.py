"""Whatever a client calls a language, as one of those that an engine offers."""

from collections.abc import Iterable
from functools import lru_cache

import langcodes

_MAX_CHARS = 64
_MAX_DISTANCE = 5
"""langcodes' scale: regions of one language are at most 5 apart, Swiss German and German 8, strangers 10 and up."""


def match_language(asked: str, offered: Iterable[str]) -> str | None:
    """The offered BCP-47 tag for an ISO code, a BCP-47 tag or an English name; None: none is near enough."""
    return _match(asked.strip(), tuple(offered))


@lru_cache(maxsize=1024)
def _match(asked: str, offered: tuple[str, ...]) -> str | None:
    tag = _tag(asked)
    if tag is None or not offered:
        return None
    found, distance = langcodes.closest_match(tag, offered, max_distance=_MAX_DISTANCE)
    if distance <= _MAX_DISTANCE:
        return found
    # Two scripts of one language are far apart for a reader, and the same for a listener.
    language = langcodes.get(tag).language
    return next((other for other in offered if langcodes.get(other).language == language), None)


@lru_cache(maxsize=1024)
def language_tag(asked: str) -> str | None:
    """The BCP-47 tag of an ISO code, a BCP-47 tag or an English name; None: there is no such language."""
    tag = _tag(asked.strip())
    return tag if tag is not None and langcodes.tag_is_valid(tag) else None


def _tag(asked: str) -> str | None:
    # No language is called that, and the table of names is in a library that some of it crashes.
    if len(asked) > _MAX_CHARS or not asked.isprintable():
        return None
    try:
        return str(langcodes.standardize_tag(asked))
    except (ValueError, AttributeError):
        pass
    try:
        return langcodes.find(asked).to_tag()
    except (LookupError, ValueError):
        return None
