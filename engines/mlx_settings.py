"""What an operator can set for every engine on MLX, and where its checkpoint is."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engines.contract import EngineUnavailable, OptionError, Source
from engines.mlx_runtime import DEVICES, installed_versions, unsupported
from engines.option_checks import check_count, check_number
from engines.recordings import RecordedVoice, recorded_voices

SUFFIXES = frozenset({".json", ".safetensors", ".model", ".txt", ".npz", ".pth"})
"""Of the files that shape the sound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MlxSettings:
    voices: Mapping[str, Any] = field(default_factory=dict)
    """Names for recordings: a path, or a table of `audio` and `text` (what is said in it)."""
    cache_limit_bytes: int = 1 << 30
    """Freed memory that MLX keeps for later; its own limit is most of the machine's."""
    frames_per_token: float = 6.0
    """A text's audio can't be longer than so many frames for each of its tokens, and `spare_frames` more."""
    spare_frames: int = 40
    frames_per_step: int = 4
    """Computed in one go after the first step, which is one frame."""

    def __post_init__(self) -> None:
        check_count("cache_limit_bytes", self.cache_limit_bytes, 0, 1 << 50)
        check_number("frames_per_token", self.frames_per_token, 0.1, 50)
        check_count("spare_frames", self.spare_frames, 0, 500)
        check_count("frames_per_step", self.frames_per_step, 1, 50)
        if not isinstance(self.voices, Mapping):
            raise OptionError("voices", "must be a table")

    @property
    def recordings(self) -> tuple[RecordedVoice, ...]:
        """Raises OptionError."""
        return recorded_voices(self.voices)


def checkpoint_folder(name: str, source: Source) -> Path:
    """A folder, or what has been downloaded of a repository of the hub, which is never asked. Raises
    EngineUnavailable.
    """
    if (why := unsupported()) is not None:
        raise EngineUnavailable(why)
    if not installed_versions():
        raise EngineUnavailable(f"{name}'s library isn't installed: pip install 'saystream[mlx]'")
    if source.path is None:
        raise EngineUnavailable(f'{name} needs a checkpoint: engines.{name}.path = "/srv/{name}"')
    folder = Path(source.path).expanduser()
    if not folder.exists() and source.path.count("/") == 1 and not source.path.startswith((".", "/", "~")):
        folder = _downloaded(name, source.path)
    if not (folder / "config.json").is_file():
        raise EngineUnavailable(f"{name}'s checkpoint {folder} has no config.json")
    return folder


def _downloaded(name: str, repository: str) -> Path:
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(repository, local_files_only=True))
    except Exception as error:
        raise EngineUnavailable(
            f"{name}: {repository} is neither a folder here nor downloaded from the hub: hf download {repository}"
        ) from error


def read_config(name: str, folder: Path, kinds: Sequence[str]) -> dict[str, Any]:
    """Raises EngineUnavailable."""
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise EngineUnavailable(f"{folder / 'config.json'} can't be read: {error}") from error
    kind = (config.get("model_type") or config.get("architecture")) if isinstance(config, dict) else None
    if kind not in kinds:
        raise EngineUnavailable(
            f"{name}: {folder} is a checkpoint of {kind or 'something else'}, not of {' or '.join(kinds)}"
        )
    return dict(config)


def check_device(name: str, device: str) -> None:
    """Raises EngineUnavailable."""
    if device not in {"cpu", *DEVICES}:
        raise EngineUnavailable(f"{name} runs on an Apple GPU or on the CPU, not on {device!r}")


def weights_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*.safetensors"))


def footprint_bytes(folder: Path, settings: MlxSettings) -> dict[str, int]:
    """A guess until it was measured: the weights, what MLX may keep, and a gigabyte to compute in."""
    return {"": weights_bytes(folder) + settings.cache_limit_bytes + (1 << 30)}
