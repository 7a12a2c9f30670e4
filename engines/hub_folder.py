"""A whole checkpoint from the Hugging Face hub."""

from collections.abc import Collection
from pathlib import Path, PurePosixPath

from engines import hub
from engines.contract import EngineUnavailable

_FIRST = "config.json"


def fetch_folder(
    repo: str, revision: str, patterns: Collection[str], *, engine: str, endpoint: str | None = None
) -> Path:
    """The files whose names match one of the patterns. Blocks until they are here. Raises EngineUnavailable.

    Where the hub can't be asked what there is, what was fetched before is taken for all of it.
    """
    from huggingface_hub import HfApi

    try:
        names = HfApi(endpoint).list_repo_files(repo, revision=revision)
    except Exception as error:
        known = hub.cached(repo, _FIRST, revision)
        if known is not None:
            return known.parent
        reason = str(error).strip().partition("\n")[0] or repr(error)
        raise EngineUnavailable(f"the hub can't be asked for {repo}: {reason}") from error
    wanted = [name for name in names if any(PurePosixPath(name).match(pattern) for pattern in patterns)]
    if _FIRST not in wanted:
        raise EngineUnavailable(f"{repo} at {revision} is no checkpoint: it has no {_FIRST}")
    for name in wanted:
        hub.fetch(repo, name, revision, engine=engine, endpoint=endpoint)
    return hub.fetch(repo, _FIRST, revision, engine=engine, endpoint=endpoint).parent
