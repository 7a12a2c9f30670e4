"""Weights from the Hugging Face hub: in its usual cache, checked against the hub's digest, logged on the way."""

import hashlib
import logging
import re
from pathlib import Path
from time import monotonic
from typing import Any

from engines.contract import EngineUnavailable

log = logging.getLogger(__name__)

_SAY_S = 5.0


def cached(repo: str, file: str, revision: str) -> Path | None:
    """Where it is if it has been fetched; asks nobody."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(repo, file, revision=revision)
    return Path(found) if isinstance(found, str) else None


def fetch(repo: str, file: str, revision: str, *, endpoint: str | None = None) -> Path:
    """Blocks until it is here and whole. Raises EngineUnavailable."""
    from huggingface_hub import hf_hub_download

    known = cached(repo, file, revision)
    if known is not None:
        return known
    try:
        path = Path(
            hf_hub_download(
                repo, file, revision=revision, endpoint=endpoint, tqdm_class=_logged(f"{repo}/{file}")
            )
        )
    except Exception as error:
        reason = str(error).strip().partition("\n")[0] or repr(error)
        raise EngineUnavailable(f"{repo}/{file} couldn't be fetched from the hub: {reason}") from error
    _check(path)
    return path


def _check(path: Path) -> None:
    """The hub's cache names a file by its digest: SHA-256 of large ones, git's of the others."""
    blob = path.resolve()
    content = blob.read_bytes()
    if re.fullmatch(r"[0-9a-f]{64}", blob.name):
        digest = hashlib.sha256(content).hexdigest()
    elif re.fullmatch(r"[0-9a-f]{40}", blob.name):
        digest = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    else:
        return
    if digest != blob.name:
        path.unlink()
        blob.unlink()
        raise EngineUnavailable(f"{path.name} arrived damaged: its digest is {digest}, not {blob.name}")


def _logged(what: str) -> type[Any]:
    """A progress bar that is lines in the log."""
    from tqdm import tqdm

    class Logged(tqdm):  # type: ignore[misc]
        said_s = 0.0

        def display(self, msg: str | None = None, pos: int | None = None) -> bool:
            del msg, pos
            if self.total and monotonic() - self.said_s >= _SAY_S:
                self.said_s = monotonic()
                log.info("fetching %s: %.0f of %.0f MB", what, self.n / 1e6, self.total / 1e6)
            return True

    return Logged
