"""Where a user's programs keep what they can do without, and what they can't."""

import os
import sys
from pathlib import Path


def user_cache_folder() -> Path | None:
    """Not made yet; None for a user without a home."""
    try:
        return _user_cache_folder()
    except RuntimeError:
        return None


def user_data_folder() -> Path | None:
    """Not made yet; None for a user without a home."""
    try:
        return _user_data_folder()
    except RuntimeError:
        return None


def _user_cache_folder() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "saystream"
    if sys.platform == "win32":
        return (
            Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "saystream" / "cache"
        )
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "saystream"


def _user_data_folder() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "saystream"
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming") / "saystream"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "saystream"
