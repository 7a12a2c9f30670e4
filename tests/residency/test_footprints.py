"""What engines take of memory: declared, measured, remembered."""

from dataclasses import replace
from pathlib import Path

import pytest

from residency.footprints import Footprints, rounded_up, signature_of
from tests.fakes.models import FakeEngine, facts, unit


def test_s25_footprints_are_for_the_mode_that_takes_most_and_rounded_up() -> None:
    declared = replace(
        facts(), footprint_bytes={"": 6_300_000_001, "audio": 76 * 10**8, "audio+text": 8 * 10**9}
    )
    assert Footprints().of(unit(FakeEngine(declared))) == 8_000_000_000
    assert rounded_up(7_100_000_001) == 7_200_000_000


def test_s31_the_measured_peak_is_remembered_by_signature_over_restarts(tmp_path: Path) -> None:
    file = tmp_path / "there" / "footprints.json"
    one = unit(FakeEngine(replace(facts(), footprint_bytes={"": 10**9})))
    Footprints(file).measured(one, 2_345_678_901)
    Footprints(file).measured(one, 1_000_000_000)
    assert Footprints(file).of(one) == 2_400_000_000
    other = replace(one, facts=replace(one.facts, checkpoint="another"))
    assert signature_of(other) != signature_of(one)
    assert Footprints(file).of(other) == 10**9
    assert [path.name for path in file.parent.iterdir()] == ["footprints.json"]


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"a": "b"}'])
def test_s31_a_broken_file_of_footprints_does_no_harm(tmp_path: Path, content: str) -> None:
    file = tmp_path / "footprints.json"
    file.write_text(content)
    one = unit(FakeEngine(facts()))
    Footprints(file).measured(one, 123)
    assert Footprints(file).of(one) == 100_000_000


def test_s31_footprints_that_cannot_be_kept_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where a folder should be")
    footprints = Footprints(tmp_path / "taken" / "footprints.json")
    one = unit(FakeEngine(facts()))
    footprints.measured(one, 123)
    assert footprints.of(one) == 100_000_000
