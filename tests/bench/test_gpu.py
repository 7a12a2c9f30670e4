"""The look at an accelerator, on a processor: what it says of engines that fail, hang or aren't there."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.device import Device, Taken
from bench.gpu import ROOT, Subject, run, shown, subjects
from bench.gpu_engine import FIGURES, _memory
from bench.row import Row
from engines import registry


def measured(*arguments: str, json_path: Path) -> tuple[dict[str, Any], str]:
    command = [sys.executable, "-m", "bench.gpu", "--device", "cpu", "--json", str(json_path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert json_path.is_file(), done.stderr
    return json.loads(json_path.read_text("utf-8")), done.stdout


def missing_engine() -> str:
    for name in registry.names():
        if registry.missing(registry.describe(name)) is not None:
            return name
    pytest.skip("the libraries of all engines are installed here")


@pytest.mark.timeout(240)
def test_one_that_fails_and_one_that_is_not_installed_are_named_and_the_others_go_on(tmp_path: Path) -> None:
    absent = missing_engine()
    document, table = measured(
        "--engines",
        f"tone,{absent},nobody,hibari",
        "--weights",
        'tone={"fails_to_load": true}',
        "--seconds",
        "200",
        json_path=tmp_path / "figures.json",
    )
    rows = {row["figure"]: row for row in document["rows"]}
    assert rows["tone (as set)"]["measured"].startswith("failed: ")
    assert rows["tone (as set)"]["reached"] is False
    (of_absent,) = [row for name, row in rows.items() if name.startswith(f"{absent} ")]
    assert "pip install 'saystream" in of_absent["measured"]
    assert of_absent["reached"] is None
    assert "there is no engine 'nobody'" in rows["nobody (as it comes)"]["measured"]
    for figure in FIGURES:
        row = rows[f"hibari (as it comes): {figure}"]
        assert row["raw"]
        assert all(math.isfinite(value) for value in row["raw"].values())
        assert f"| {row['figure']} | {row['measured']} |" in table
    assert document["took_s"] > 0


def test_one_that_hangs_is_ended_when_its_time_is_over(tmp_path: Path) -> None:
    slow = Subject("tone", "slow", settings={"load_s": 600})
    (row,) = run([slow], device="cpu", seconds=6, recording=tmp_path / "none.wav", folder=tmp_path)
    assert row.figure == f"tone (slow): {', '.join(FIGURES)}"
    assert row.measured == "left out: its 6 s were over"
    assert row.reached is None


def test_what_there_is_no_time_for_is_left_out(tmp_path: Path) -> None:
    quick = Subject("tone", "quick")
    (row,) = run([quick], device="cpu", seconds=2, recording=tmp_path / "none.wav", folder=tmp_path)
    assert (row.figure, row.measured) == ("tone (quick)", "left out: 2 s were left for it")


def test_real_weights_come_beside_tiny_ones_and_may_have_settings() -> None:
    found = subjects(
        ["qwen", "dots", "hibari"], {"qwen": "/srv/Base", "dots": '{"path": "/srv/mf", "optimize": true}'}
    )
    assert found == [
        Subject("qwen", "tiny", tiny=True),
        Subject("qwen", "Base", path="/srv/Base"),
        Subject("dots", "tiny", tiny=True),
        Subject("dots", "mf", path="/srv/mf", settings={"optimize": True}),
        Subject("hibari", "as it comes"),
    ]
    with pytest.raises(ValueError, match="property name"):
        subjects(["dots"], {"dots": "{nonsense"})


@pytest.mark.parametrize(
    ("visible", "device", "card"),
    [
        (None, "cuda:1", "1"),
        ("4,5", "cuda:1", "5"),
        ("4,5", "cuda", "4,5"),
        ("4,5", None, "4,5"),
        (None, "cpu", None),
    ],
)
def test_of_several_cards_one_is_shown(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, device: str | None, card: str | None
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert shown(device) == {
        **os.environ,
        **({} if card is None else {"CUDA_VISIBLE_DEVICES": card}),
    }


@pytest.mark.parametrize("device", ["tpu", "cuda:", "cuda:x", "cpu:1", "cuda:2"])
def test_a_device_that_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    with pytest.raises(ValueError, match=device):
        shown(device)


def memory_row(after_bytes: int, *, loaded_bytes: int = 4_000_000_000) -> Row:
    card = Device("cpu")
    card.kind = "cuda"  # the row is made of numbers alone
    none = Taken(1_000_000)
    loaded = Taken(2_000_000, loaded_bytes, loaded_bytes)
    after = Taken(1_500_000, after_bytes, after_bytes)
    return _memory("a", card, before=none, loaded=loaded, most=loaded, after=after)


def test_what_a_large_load_took_of_the_accelerator_is_given_back() -> None:
    assert memory_row(100_000_000).reached is True
    assert memory_row(300_000_000).reached is False
    assert memory_row(50_000_000, loaded_bytes=60_000_000).reached is None
    assert memory_row(0).raw["at_the_most_allocated_bytes"] == 4e9
