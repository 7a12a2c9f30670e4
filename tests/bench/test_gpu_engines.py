"""Each engine on PyTorch has every figure, from its tiny checkpoint on a processor; how large they are isn't asked."""

import math
from pathlib import Path

import pytest

from bench.gpu import Subject, absent
from bench.gpu_engine import FIGURES, TINY
from tests.bench.test_gpu import measured

AT_ONCE = {"qwen": {1, 4, 16}, "voxcpm": {1}, "dots": {1, 4, 16}, "pocket": {1, 4, 16}}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", TINY)
def test_every_figure_is_there_and_finite(name: str, tmp_path: Path) -> None:
    if (row := absent(Subject(name, "tiny"))) is not None:
        pytest.skip(f"make test-engines has it; here: {row.measured}")
    document, _ = measured("--engines", name, "--seconds", "240", json_path=tmp_path / "figures.json")
    rows = {row["figure"]: row for row in document["rows"]}
    told = "\n".join(f"{figure}: {row['measured']}" for figure, row in rows.items())
    assert set(rows) == {f"{name} (tiny): {figure}" for figure in FIGURES}, told
    for row in rows.values():
        assert row["raw"], told
        assert all(math.isfinite(value) and value >= 0 for value in row["raw"].values()), told
    assert set(rows[f"{name} (tiny): throughput"]["raw"]) == {"gain", *(f"at_{n}" for n in AT_ONCE[name])}
    assert rows[f"{name} (tiny): cost"]["raw"]["audio_s"] > 0


def test_a_card_that_is_not_there_is_told_as_one(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="make test-engines has it")
    if torch.cuda.is_available():
        pytest.skip("there is a card")
    document, _ = measured(
        "--engines", "pocket", "--device", "cuda", "--seconds", "60", json_path=tmp_path / "figures.json"
    )
    (row,) = document["rows"]
    assert "sees no GPU" in row["measured"]
    assert row["reached"] is False
