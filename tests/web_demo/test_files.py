"""What is shipped of the page."""

import re

import pytest

import web_demo


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return {path: body.decode() for path, (_, body) in web_demo.files().items()}


def test_the_page_the_client_and_what_they_need_are_there(files: dict[str, str]) -> None:
    assert {"/", "/client.js", "/client.d.ts", "/demo/page.css", "/demo/page.js", "/demo/icon.svg"} <= set(
        files
    )


def test_every_file_has_its_type() -> None:
    types = {path: kind for path, (kind, _) in web_demo.files().items()}
    assert types["/"].startswith("text/html")
    assert types["/client.js"].startswith("text/javascript")
    assert types["/demo/page.css"].startswith("text/css")
    assert types["/demo/icon.svg"] == "image/svg+xml"


def test_every_file_named_by_the_page_is_shipped_and_none_is_from_elsewhere(files: dict[str, str]) -> None:
    named = re.findall(r'(?:src|href)="([^"]+)"', files["/"])
    assert named
    for path in named:
        assert f"/{path}" in files


def test_every_imported_module_is_shipped(files: dict[str, str]) -> None:
    for path, text in files.items():
        if not path.endswith(".js"):
            continue
        for module in re.findall(r'^import .* from "([^"]+)";', text, re.MULTILINE):
            target = {"..": "/"}.get(module[:2], "/demo/") + module.rpartition("/")[2]
            assert target in files


def test_the_client_has_no_dependency(files: dict[str, str]) -> None:
    assert not re.search(r"^\s*import\b(?!\.meta)", files["/client.js"], re.MULTILINE)


def test_scripts_and_styles_come_from_this_server_alone() -> None:
    directives = dict(part.split(" ", 1) for part in web_demo.CONTENT_SECURITY_POLICY.split("; "))
    assert directives["default-src"] == "'none'"
    assert directives["script-src"] == "'self'"
    assert directives["style-src"] == "'self'"


def test_nothing_in_the_page_needs_an_inline_script_or_style(files: dict[str, str]) -> None:
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=", files["/"])
    assert re.findall(r"<script(?![^>]*\bsrc=)", files["/"]) == []


def test_what_other_origins_may_load_is_there(files: dict[str, str]) -> None:
    assert set(files) >= web_demo.SHARED_PATHS
