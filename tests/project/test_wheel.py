import os
import subprocess
import sys
from email import message_from_string
from importlib.metadata import packages_distributions
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.project.project import PACKAGES, ROOT, VERSION

DIST_INFO = f"saystream-{VERSION}.dist-info"


def names(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_the_eight_packages_and_nothing_else(wheel: Path) -> None:
    assert {name.split("/")[0] for name in names(wheel)} == {*PACKAGES, DIST_INFO}
    assert not [name for name in names(wheel) if "__pycache__" in name or "/test" in name]


def test_every_file_of_a_package_is_in_the_wheel(wheel: Path) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", *PACKAGES], cwd=ROOT, check=True, capture_output=True, text=True
    )
    missing = set(tracked.stdout.split()) - names(wheel)
    assert not {name for name in missing if (ROOT / name).exists()}


def test_each_package_says_that_it_is_typed(wheel: Path) -> None:
    assert {f"{package}/py.typed" for package in PACKAGES} <= names(wheel)


def test_the_page_and_the_browser_client_are_in_the_wheel(wheel: Path) -> None:
    inside = {Path(name).name for name in names(wheel) if name.startswith("web_demo/")}
    assert {"index.html", "client.js", "client.d.ts"} <= inside


def test_the_licence_the_command_and_the_least_python_are_in_the_wheels_facts(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        facts = message_from_string(archive.read(f"{DIST_INFO}/METADATA").decode())
        commands = archive.read(f"{DIST_INFO}/entry_points.txt").decode()
        licence = archive.read(f"{DIST_INFO}/licenses/LICENSE").decode()
    assert facts["License-Expression"] == "Apache-2.0"
    assert facts["Requires-Python"] == ">=3.11"
    assert facts["Version"] == VERSION
    assert "saystream = saystream.cli:main" in commands
    assert "Apache License" in licence


@pytest.mark.parametrize("package", PACKAGES)
def test_no_other_distribution_here_owns_one_of_our_names(package: str) -> None:
    assert set(packages_distributions().get(package, [])) <= {"saystream"}


def python(*arguments: str, first_on_path: list[Path], cwd: Path) -> "subprocess.CompletedProcess[str]":
    path = os.pathsep.join(str(folder) for folder in first_on_path)
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_what_the_wheel_installs_runs_far_from_the_source(installed: Path, tmp_path: Path) -> None:
    show = "import protocol, saystream, ws_server; print(protocol.__file__, saystream.__file__, ws_server.__file__)"
    where = python("-c", show, first_on_path=[installed], cwd=tmp_path)
    assert where.returncode == 0, where.stderr
    assert all(Path(file).is_relative_to(installed) for file in where.stdout.split())
    version = python("-m", "saystream", "--version", first_on_path=[installed], cwd=tmp_path)
    assert (version.returncode, version.stdout.split()[-1:]) == (0, [VERSION]), version.stderr


def test_the_command_says_so_when_another_protocol_package_shadows_ours(
    installed: Path, tmp_path: Path
) -> None:
    other = tmp_path / "protocol"
    other.mkdir()
    (other / "__init__.py").write_text("raise RuntimeError('someone else')\n")
    result = python("-m", "saystream", "--version", first_on_path=[tmp_path, installed], cwd=installed)
    assert result.returncode != 0
    assert "Traceback" not in result.stderr
    assert str(other) in result.stderr
    assert len(result.stderr.strip().splitlines()) <= 3
