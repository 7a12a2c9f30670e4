"""Tells at once when the top-level name `protocol` belongs to somebody else."""

import importlib.util
import sys
from pathlib import Path

_OURS = Path(__file__).resolve().parent.parent / "protocol"


class ShadowedError(ImportError):
    """Another package named `protocol` is found before ours, or has been written over it."""


def check() -> None:
    """Raise ShadowedError unless `import protocol` finds (or found) the folder beside this package.

    Nothing of that package is run to find out.
    """
    found = _folder_of_protocol()
    if found != _OURS:
        raise ShadowedError(
            f"saystream needs its own package 'protocol' in {_OURS}, but Python finds "
            f"{found or 'none'}. Another distribution or a local file of that name is in the way: "
            "install saystream in an environment of its own, or run from another folder."
        )
    if not (_OURS / "messages.py").is_file():
        raise ShadowedError(
            f"{_OURS} isn't saystream's: another distribution has written over it. "
            "Install saystream in an environment of its own."
        )


def _folder_of_protocol() -> Path | None:
    loaded = sys.modules.get("protocol")
    spec = loaded.__spec__ if loaded is not None else importlib.util.find_spec("protocol")
    if spec is None or spec.origin is None:
        return None
    origin = Path(spec.origin).resolve()
    return origin.parent if origin.name == "__init__.py" else origin
