"""docs/protocol.md says all that the types say, and names nothing that isn't there."""

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from protocol import messages
from protocol.codec import CODECS
from protocol.errors import ERROR_CODES, ErrorCode
from protocol.limits import Limits
from protocol.messages import HeardText, Stats, WireLimits
from tests.protocol.strategies import CLIENT_TYPES, SERVER_TYPES
from tests.serving import serving

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
TYPES = [*CLIENT_TYPES, *SERVER_TYPES]
TAGS = {str(cls.__struct_config__.tag): cls for cls in TYPES}


def chapter(title: str, level: int) -> str:
    marks = "#" * level
    found = re.search(
        rf"^{marks} {re.escape(title)}\n(.*?)(?=^#{{1,{level}}} |\Z)", PAGE, re.MULTILINE | re.DOTALL
    )
    assert found is not None, f"no chapter {title!r}"
    return found[1]


def names_in(text: str) -> set[str]:
    return set(re.findall(r"`([a-z0-9_]+)`", text))


def table(text: str, head: str) -> list[list[str]]:
    """The rows of the table whose first column has that head."""
    rows = re.search(rf"^\| {head} \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert rows is not None, f"no table of {head}"
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in rows[1].splitlines()]


@pytest.mark.parametrize("tag", TAGS)
def test_each_field_of_each_message_is_in_its_chapter(tag: str) -> None:
    wanted = {field.encode_name for field in msgspec.structs.fields(TAGS[tag])}
    assert wanted <= names_in(chapter(f"`{tag}`", 3))


def test_each_chapter_about_a_message_is_about_one_that_exists() -> None:
    chapters = re.findall(r"^### `(\w+)`$", PAGE, re.MULTILINE)
    assert sorted(chapters) == sorted(TAGS)


@pytest.mark.parametrize("tag", ["open", "hello", "done"])
def test_each_row_of_a_table_of_fields_is_a_field(tag: str) -> None:
    wanted = {field.encode_name for field in msgspec.structs.fields(TAGS[tag])}
    listed: set[str] = set()
    for row in table(chapter(f"`{tag}`", 3), "field"):
        listed |= names_in(row[0])
    assert listed == wanted


@pytest.mark.parametrize("cls", [Stats, HeardText], ids=lambda cls: cls.__name__)
def test_what_is_inside_done_is_in_its_chapter(cls: type[msgspec.Struct]) -> None:
    assert set(cls.__struct_fields__) <= names_in(chapter("`done`", 3))


@pytest.mark.parametrize(
    ("tag", "kind"),
    [
        ("open", messages.Format),
        ("open", messages.Markup),
        ("done", messages.DoneReason),
        ("bye", messages.ByeReason),
        ("queued", msgspec.structs.fields(messages.Queued)[1].type),
        ("started", msgspec.structs.fields(messages.Started)[-1].type),
        ("played", msgspec.structs.fields(messages.Played)[-1].type),
    ],
)
def test_each_value_that_a_field_may_have_is_in_its_chapter(tag: str, kind: Any) -> None:
    values = get_args(kind)
    assert values
    assert set(values) <= names_in(chapter(f"`{tag}`", 3))


def test_each_rate_is_named() -> None:
    text = chapter("`open`", 3)
    assert all(str(rate) in text for rate in get_args(messages.SampleRate))


def test_the_limits_and_their_defaults_are_those_of_the_code() -> None:
    listed = {row[0].strip("`"): float(row[1]) for row in table(chapter("Limits", 2), "limit")}
    assert listed == msgspec.to_builtins(Limits().wire())
    assert set(listed) == set(WireLimits.__struct_fields__)


def test_the_other_limits_are_named_with_their_defaults() -> None:
    text = chapter("Limits", 2)
    for field in fields(Limits):
        if field.name not in WireLimits.__struct_fields__:
            assert re.search(rf"`{field.name}` \({field.default}\b", text), field.name


def test_the_error_codes_are_those_of_the_code() -> None:
    listed = {row[0].strip("`"): row[1] == "yes" for row in table(chapter("Error codes", 2), "code")}
    assert listed == {code: meaning.retryable for code, meaning in ERROR_CODES.items()}


def test_the_table_of_errors_has_each_code() -> None:
    assert set(ERROR_CODES) == set(get_args(ErrorCode))


def test_the_sub_protocols_are_named() -> None:
    rows = table(chapter("Connecting", 2), "sub-protocol")
    assert [row[0].strip("`") for row in rows] == list(CODECS)


def test_each_name_in_the_page_exists() -> None:
    """A code or a field that was renamed doesn't live on in the prose."""
    structs: list[type[msgspec.Struct]] = [*TYPES, Stats, HeardText, WireLimits]
    known = {name for cls in structs for name in cls.__struct_fields__}
    known |= set(TAGS) | set(ERROR_CODES) | {field.name for field in fields(Limits)}
    settings = {"max_connections", "refuse_when_full"}
    described = {name for name in names_in(PAGE) if "_" in name[1:]}
    assert described <= known | settings


def test_the_first_example_speaks(tmp_path: Path) -> None:
    """As a newcomer would run it, but for the port."""
    program = re.search(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert program is not None
    with serving("--engine", "tone") as server:
        code = program[1].replace("ws://127.0.0.1:8765", server.ws_url)
        assert server.ws_url in code
        finished = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert finished.returncode == 0, finished.stderr
    samples = (tmp_path / "greeting.raw").stat().st_size // 2
    assert samples > 24000
    assert finished.stdout == f"complete {samples} samples\n"
