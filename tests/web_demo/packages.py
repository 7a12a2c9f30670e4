"""What the page's tests need from the npm registry, installed once beside them."""

import json
import subprocess
from pathlib import Path

NODE_TESTS = Path(__file__).resolve().parent / "node"


def installed() -> Path:
    """The folder of the packages; installs them if one is missing or of another version."""
    modules = NODE_TESTS / "node_modules"
    wanted = json.loads((NODE_TESTS / "package.json").read_text())["dependencies"]
    if any(_version(modules / name) != version for name, version in wanted.items()):
        command = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
        subprocess.run(command, cwd=NODE_TESTS, check=True, capture_output=True, timeout=300)
    return modules


def _version(package: Path) -> str | None:
    manifest = package / "package.json"
    return json.loads(manifest.read_text())["version"] if manifest.exists() else None
