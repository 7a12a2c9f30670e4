"""Weights from the Hugging Face hub: in its usual cache, checked against the hub's digest, told of on the way."""

import hashlib
import logging
import re
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

from engines import downloads
from engines.contract import EngineUnavailable
from engines.downloads import Download

log = logging.getLogger(__name__)

_SAY_S = 5.0
_COMMIT = re.compile(r"[0-9a-f]{40}")
_whole: set[tuple[Path, int, int]] = set()
"""Files that were seen to be, by size and time of change."""


def cached(repo: str, file: str, revision: str) -> Path | None:
    """Where it is if it has been fetched; asks nobody."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(repo, file, revision=revision)
    return Path(found) if isinstance(found, str) else None


def commit_of(repo: str, revision: str) -> str:
    """What a branch or a tag was when something of it was first fetched; until then its own name.

    All that is fetched later comes from the same commit, though the branch may have moved on.
    """
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    if _COMMIT.fullmatch(revision):
        return revision
    known = Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=repo, repo_type="model") / "refs"
    try:
        commit = (known / revision).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return revision
    return commit if _COMMIT.fullmatch(commit) else revision


def fetch(repo: str, file: str, revision: str, *, engine: str, endpoint: str | None = None) -> Path:
    """Blocks until it is here and whole. Raises EngineUnavailable."""
    at = commit_of(repo, revision)
    path = cached(repo, file, at)
    if path is None:
        path = _download(repo, file, at, engine, endpoint)
    _check(path)
    return path


def _download(repo: str, file: str, revision: str, engine: str, endpoint: str | None) -> Path:
    from huggingface_hub import hf_hub_download

    what = f"{repo}/{file}"
    downloads.tell(Download(engine=engine, file=what))
    try:
        path = Path(
            hf_hub_download(
                repo, file, revision=revision, endpoint=endpoint, tqdm_class=_reporting(engine, what)
            )
        )
    except Exception as error:
        raise EngineUnavailable(
            f"{what} couldn't be fetched from the hub: {_why(error, revision)}"
        ) from error
    finally:
        downloads.tell(Download(engine=engine, file=what, over=True))
    log.info("%s is here, of revision %s at commit %s", what, revision, commit_of(repo, revision))
    return path


def _why(error: Exception, revision: str) -> str:
    from huggingface_hub import constants, errors

    match error:
        case errors.GatedRepoError():
            return "its terms have to be accepted there first, and the server logged in (hf auth login)"
        case errors.RepositoryNotFoundError():
            return "there is no such repository, or it isn't shown to this server"
        case errors.RevisionNotFoundError():
            return f"it has no revision {revision!r}"
        case errors.LocalEntryNotFoundError(__cause__=errors.HfHubHTTPError() as told):
            return _why(told, revision)
        case errors.LocalEntryNotFoundError() | errors.OfflineModeIsEnabled():
            if constants.HF_HUB_OFFLINE:
                return "it isn't in the cache, and the hub isn't to be asked (HF_HUB_OFFLINE)"
            return f"the hub can't be reached ({_first_line(error.__cause__ or error)})"
        case errors.EntryNotFoundError():
            return f"there is no such file in revision {revision!r}"
        case OSError(strerror=str(reason)):
            return reason
        case _:
            return _first_line(error)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or repr(error)


def _check(path: Path) -> None:
    """The hub's cache names a file by its digest: SHA-256 of large ones, git's of the others.

    Once, as long as it doesn't change: a model that comes and goes isn't read twice at each load.
    """
    blob = path.resolve()
    state = blob.stat()
    if re.fullmatch(r"[0-9a-f]{64}", blob.name):
        digest = hashlib.sha256()
    elif _COMMIT.fullmatch(blob.name):
        digest = hashlib.sha1(b"blob %d\0" % state.st_size, usedforsecurity=False)
    else:
        return
    known = (blob, state.st_size, state.st_mtime_ns)
    if known in _whole:
        return
    with blob.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    if digest.hexdigest() != blob.name:
        path.unlink()
        blob.unlink(missing_ok=True)
        raise EngineUnavailable(
            f"{path.name} is damaged and was removed from the cache: its digest is {digest.hexdigest()}, "
            f"not {blob.name}"
        )
    _whole.add(known)


def _reporting(engine: str, what: str) -> type[Any]:
    """A progress bar that tells and logs instead of drawing."""
    from tqdm import tqdm

    class Reporting(tqdm):  # type: ignore[misc]
        here_bytes = 0
        said_s = -inf

        def update(self, n: float | None = 1) -> bool | None:
            self.here_bytes += int(n or 0)
            total_bytes = None if self.total is None else int(self.total)
            downloads.tell(
                Download(engine=engine, file=what, done_bytes=self.here_bytes, total_bytes=total_bytes)
            )
            if monotonic() - self.said_s >= _SAY_S:
                self.said_s = monotonic()
                of = "" if total_bytes is None else f" of {total_bytes / 1e6:.0f}"
                log.info("fetching %s: %.0f%s MB", what, self.here_bytes / 1e6, of)
            return None

        def display(self, msg: str | None = None, pos: int | None = None) -> bool:
            del msg, pos
            return True

    return Reporting
