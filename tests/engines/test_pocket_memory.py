"""Unloading pocket gives its memory back: of a tiny checkpoint all there is to see is that nothing stays."""

import sys
from typing import Any

import numpy as np
import pytest

from tests.residency.giving_back import (
    CYCLES,
    assert_nothing_stays,
    assert_nothing_taken,
    cycles,
)

WHY = "the extra pocket isn't installed here; make test-engines has it"
pytest.importorskip("torch", reason=WHY)
pytest.importorskip("pocket_tts", reason=WHY)

import soundfile  # noqa: E402 - after what it may be skipped for

from tests.engines.tiny_pocket import make_checkpoint  # noqa: E402

pytestmark = [
    pytest.mark.timeout(200 + 20 * CYCLES),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc"),
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("pocket")
    noise = np.random.default_rng(1).standard_normal(24000 * 2).astype(np.float32) * 0.1
    soundfile.write(folder / "anna.wav", noise, 24000)
    return {"path": str(make_checkpoint(folder)), "voices": {"anna": str(folder / "anna.wav")}}


def test_nothing_stays_of_an_unloaded_pocket(table: dict[str, Any]) -> None:
    assert_nothing_stays(cycles("pocket", "inline", table))


def test_a_hosted_pocket_takes_nothing_of_ours(table: dict[str, Any]) -> None:
    assert_nothing_taken(cycles("pocket", "hosted", table))
