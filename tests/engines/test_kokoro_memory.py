"""Unloading kokoro gives its memory back, inline and hosted."""

import sys
from pathlib import Path

import pytest

from engines import kokoro
from tests.residency.giving_back import CYCLES, assert_given_back, assert_nothing_taken, cycles

WHY = "the extra kokoro, its weights or its voices aren't installed here; make test-engines has them"
pytest.importorskip("kokoro_onnx", reason=WHY)
VOICES = Path(__file__).parents[2] / "build" / "kokoro-js" / "package" / "voices"
if not VOICES.is_dir() or not kokoro._installed_parts():
    pytest.skip(WHY, allow_module_level=True)

TABLE = {"voices": str(VOICES), "threads": 2}
pytestmark = [
    pytest.mark.timeout(200 + 20 * CYCLES),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc"),
]


def test_unloading_kokoro_gives_back_what_its_load_took() -> None:
    assert_given_back(cycles("kokoro", "inline", TABLE), least_bytes=100e6)


def test_a_hosted_kokoro_takes_nothing_of_ours() -> None:
    assert_nothing_taken(cycles("kokoro", "hosted", TABLE))
