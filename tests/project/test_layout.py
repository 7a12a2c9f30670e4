import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.project.project import PACKAGES, ROOT, SETTINGS, VERSION

LONGEST_MODULE_LINES = 400
TEXT = {
    ".py",
    ".md",
    ".toml",
    ".js",
    ".ts",
    ".html",
    ".css",
    ".txt",
    ".json",
    ".yml",
    ".service",
    ".plist",
    "",
}


@cache
def tracked_files() -> tuple[Path, ...]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    files = (ROOT / name for name in listed.stdout.split("\0") if name)
    return tuple(file for file in files if file.is_file() and file.suffix in TEXT)


def product_modules() -> list[Path]:
    return [
        file
        for file in tracked_files()
        if file.suffix == ".py" and file.relative_to(ROOT).parts[0] in PACKAGES
    ]


def test_every_package_on_disk_is_built_typed_and_held_by_the_import_contracts() -> None:
    on_disk = {folder.parent.name for folder in ROOT.glob("*/__init__.py")} - {"tests", "bench", "examples"}
    tool = SETTINGS["tool"]
    assert on_disk == set(PACKAGES) == set(tool["importlinter"]["root_packages"])
    assert on_disk <= set(tool["mypy"]["files"])


def test_every_module_opens_with_a_sentence_on_what_it_is_for() -> None:
    bare = []
    for file in product_modules():
        tree = ast.parse(file.read_text())
        if tree.body and not ast.get_docstring(tree):
            bare.append(str(file.relative_to(ROOT)))
    assert not bare


def test_no_module_grows_past_a_readable_length() -> None:
    lengths = {str(file.relative_to(ROOT)): len(file.read_text().splitlines()) for file in product_modules()}
    assert not {name: lines for name, lines in lengths.items() if lines > LONGEST_MODULE_LINES}


@pytest.mark.parametrize("name", ["utils", "util", "helpers", "helper", "common", "misc"])
def test_no_module_is_a_drawer_for_anything(name: str) -> None:
    assert not [file for file in product_modules() if name in (file.stem, file.parent.name)]


UNWANTED = {
    "a path of the machine it was written on": r"/work/|/root/|/home/\w+/|/Users/\w+/|/tmp/bash",
    "work left for later": r"\bTO" r"DO\b|\bFIX" r"ME\b|\bXX" r"X\b|\bHA" r"CK\b",
    "a merge left open": r"^(<{7}|>{7}) ",
}


@pytest.mark.parametrize("what", UNWANTED)
def test_no_text_holds(what: str) -> None:
    pattern = re.compile(UNWANTED[what], re.MULTILINE)
    found = [
        f"{file.relative_to(ROOT)}: {match.group()}"
        for file in tracked_files()
        if file != Path(__file__).resolve()
        for match in pattern.finditer(file.read_text())
    ]
    assert not found


def test_the_changelog_opens_with_the_version() -> None:
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first is not None
    assert first.group(1) == VERSION


@pytest.mark.parametrize("target", ["run", "test", "test-engines", "check", "bench", "soak", "format"])
def test_make_knows_the_target(target: str) -> None:
    plan = subprocess.run(
        ["make", "-n", target], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    assert plan.returncode == 0, plan.stderr


def test_make_run_passes_flags_on() -> None:
    command = ["make", "-n", "run", "ARGS=--port 9001"]
    plan = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)
    assert "saystream serve --port 9001" in plan.stdout


LINK = re.compile(r"\[[^\]]*\]\((?!https?:|mailto:|#)([^)#\s]+)")


def test_links_between_pages_lead_somewhere() -> None:
    pages = [file for file in tracked_files() if file.suffix == ".md"]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in LINK.findall(re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL))
        if not (page.parent / target).exists()
    ]
    assert not broken
