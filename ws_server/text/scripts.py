"""Which letters of a text belong to scripts that an engine can't speak."""

from functools import lru_cache

import regex


@lru_cache(maxsize=64)
def _strangers(scripts: frozenset[str]) -> regex.Pattern[str]:
    known = "".join(rf"\p{{Script={script}}}" for script in sorted(scripts | {"Common", "Inherited"}))
    return regex.compile(rf"[\p{{L}}--[{known}]]", regex.V1)


def unspoken_chars(speakable: str, scripts: frozenset[str] | None) -> int:
    """Letters of scripts that aren't among `scripts` (Unicode names); None: every script is spoken."""
    return 0 if scripts is None else len(_strangers(scripts).findall(speakable))
