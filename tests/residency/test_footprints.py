"""What engines take of memory: declared, measured, remembered."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from engines.contract import EngineError, Source
from engines.guards import Guarded
from residency.footprints import Footprints, rounded_up, signature_of
from tests.fakes.models import FakeEngine, FakeModel, facts, unit
from tests.residency.dispatching import Clock, dispatch, say


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


@dataclass(eq=False)
class TellingModel(FakeModel):
    """Its runtime can tell what it takes."""

    asked: int = 0
    broken: bool = False

    def memory(self) -> Mapping[str, int]:
        self.asked += 1
        if self.broken:
            raise EngineError("it can't tell at the moment")
        return {"active_bytes": 100 + self.asked, "cache_bytes": 20, "peak_bytes": 300}


@dataclass(eq=False)
class TellingEngine(FakeEngine):
    def load(self, source: Source, device: str) -> FakeModel:
        self.models.append(TellingModel(self.facts))
        return self.models[-1]


async def test_what_a_runtime_tells_of_its_memory_is_asked_once_a_second_while_it_speaks() -> None:
    clock, engine = Clock(), TellingEngine(facts(step_s=0.1))
    guarded = replace(unit(engine), guard=lambda model: Guarded(model, engine.facts, engine.info))
    async with dispatch(guarded, now=clock) as dispatcher:
        assert dispatcher.status("fake").memory is None
        await say(dispatcher, "fake", "hello")
        first = dispatcher.status("fake").memory
        assert first is not None
        assert (first["cache_bytes"], first["peak_bytes"]) == (20, 300)
        await say(dispatcher, "fake", "hello again")
        assert dispatcher.status("fake").memory == first
        clock.now_s += 1.0
        await say(dispatcher, "fake", "hello")
        second = dispatcher.status("fake").memory
        assert second is not None
        assert second["active_bytes"] == first["active_bytes"] + 1
        model = engine.models[0]
        assert isinstance(model, TellingModel)
        model.broken = True
        clock.now_s += 1.0
        await say(dispatcher, "fake", "hello")
        assert dispatcher.status("fake").memory == second
