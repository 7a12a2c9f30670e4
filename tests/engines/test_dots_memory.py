"""Unloading dots gives its memory back: of a tiny checkpoint all there is to see is that nothing stays."""

import importlib.util
import sys
from typing import Any

import pytest

from tests.residency.giving_back import (
    CYCLES,
    assert_nothing_stays,
    assert_nothing_taken,
    cycles,
)

WHY = "the extra dots isn't installed here; make test-engines has it"
pytest.importorskip("torch", reason=WHY)
if importlib.util.find_spec("dots_tts") is None:
    pytest.skip(WHY, allow_module_level=True)

from tests.engines.tiny_dots import make_checkpoint  # noqa: E402 - after what it may be skipped for

pytestmark = [
    pytest.mark.timeout(200 + 20 * CYCLES),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc"),
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {"path": str(make_checkpoint(tmp_path_factory.mktemp("dots"))), "optimize": False, "steps": 1}


def test_nothing_stays_of_an_unloaded_dots(table: dict[str, Any]) -> None:
    assert_nothing_stays(cycles("dots", "inline", table))


def test_a_hosted_dots_takes_nothing_of_ours(table: dict[str, Any]) -> None:
    assert_nothing_taken(cycles("dots", "hosted", table))
