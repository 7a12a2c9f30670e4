"""Which version of an engine's library is installed, without importing it."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def installed_version(distribution: str) -> str:
    """Empty while it isn't."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""
