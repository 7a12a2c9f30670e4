"""VoxCPM as its own users load it, to compare with."""

import json
import shutil
from pathlib import Path
from typing import Any

from engines.voxcpm_library import quietly


def official(checkpoint: str, folder: Path) -> Any:
    """In float32, from a copy in `folder`."""
    from voxcpm import VoxCPM

    shutil.copytree(checkpoint, folder, dirs_exist_ok=True)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"dtype": "float32"}), "utf-8")
    with quietly():
        return VoxCPM.from_pretrained(str(folder), load_denoiser=False, optimize=False, device="cpu")
