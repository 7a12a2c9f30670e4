"""Another package named `protocol` is told apart from ours."""

import subprocess
import sys
from pathlib import Path

import pytest

from saystream import shadow

ROOT = Path(__file__).parents[2]


def test_ours_is_accepted() -> None:
    shadow.check()


@pytest.mark.parametrize("kind", ["package", "module"])
def test_the_command_says_which_one_is_in_the_way_and_does_not_run_it(tmp_path: Path, kind: str) -> None:
    bomb = "raise SystemExit('the other protocol was run')"
    if kind == "package":
        (tmp_path / "protocol").mkdir()
        (tmp_path / "protocol" / "__init__.py").write_text(bomb)
    else:
        (tmp_path / "protocol.py").write_text(bomb)
    command = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]; "
    command += "from saystream.cli import main; sys.exit(main(['say', 'x']))"
    run = subprocess.run(
        [sys.executable, "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert str(tmp_path) in run.stderr
    assert "environment of its own" in run.stderr
    assert "was run" not in run.stderr


def test_the_library_says_so_as_well(tmp_path: Path) -> None:
    (tmp_path / "protocol.py").write_text("")
    command = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]; from saystream import Client"
    run = subprocess.run(
        [sys.executable, "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "ShadowedError" in run.stderr
