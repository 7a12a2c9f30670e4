"""Where engines run, as an operator says it and as the machine allows."""

from typing import Any

import pytest

from engines.contract import EngineUnavailable
from engines.hosted import HostedEngine
from residency.dispatcher import Dispatcher
from voices.library import Library
from voices.objects import Objects
from ws_server import accelerators
from ws_server.accelerators import choose
from ws_server.catalogue import Catalogue
from ws_server.device import make_dispatcher
from ws_server.entries import read_entry
from ws_server.placement import read_table
from ws_server.settings import BadSettings, Settings

ANYWHERE = frozenset({"cpu", "cuda", "mps"})


@pytest.mark.parametrize(
    ("can_use", "asked", "here", "device"),
    [
        ({"cpu"}, "auto", {"cpu"}, "cpu"),
        ({"cpu", "cuda"}, "auto", {"cpu", "cuda"}, "cpu"),
        ({"cpu", "cuda"}, "cuda", {"cpu", "cuda"}, "cuda"),
        ({"cuda", "mps"}, "auto", {"cpu", "mps"}, "mps"),
        ({"cuda"}, "auto", {"cpu", "cuda"}, "cuda"),
        ({"cuda"}, "cpu", {"cpu"}, "cpu"),
    ],
)
def test_an_engine_runs_where_it_is_told_to_or_where_it_is_meant_to(
    can_use: set[str], asked: str, here: set[str], device: str
) -> None:
    assert choose("it", can_use, asked, here) == device


def test_s1_an_engine_for_an_accelerator_is_not_put_on_the_cpu_unless_told_to() -> None:
    with pytest.raises(
        EngineUnavailable, match=r"it needs cuda or mps.*CUDA_VISIBLE_DEVICES.*device = \"cpu\""
    ):
        choose("it", {"cuda", "mps"}, "auto", {"cpu"})


def test_a_device_that_an_engine_cannot_use_is_refused() -> None:
    with pytest.raises(EngineUnavailable, match="it can't use mps; it can use cpu, cuda"):
        choose("it", {"cpu", "cuda"}, "mps", ANYWHERE)


def test_the_processor_is_always_there() -> None:
    assert "cpu" in accelerators.present()
    assert accelerators.memory_bytes("cpu") is None


def test_the_rest_of_a_table_is_the_engines_own() -> None:
    placement, source = read_table({"path": "/w", "process": "hosted", "policy": "HARD_PIN", "cost": 0.5})
    assert (placement.process, placement.policy, placement.device) == ("hosted", "HARD_PIN", None)
    assert (source.path, dict(source.settings)) == ("/w", {"cost": 0.5})


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"process": "elsewhere"}, r"engines\.tone\.process"),
        ({"policy": "PINNED"}, r"engines\.tone\.policy"),
        ({"device": "tpu"}, r"engines\.tone\.device"),
        ({"device": "mps"}, r"engines\.tone: tone can't use mps"),
        ({"python": "/usr/bin/python3"}, r"engines\.tone\.python: only a hosted engine"),
        ({"process": "hosted", "python": "/nowhere/python"}, r"/nowhere/python can't be run"),
    ],
)
def test_a_wrong_table_is_told_at_the_start(table: dict[str, Any], told: str) -> None:
    with pytest.raises(BadSettings, match=told):
        Catalogue.read(Settings(engine="tone", engines={"tone": table}))


def test_the_default_engine_is_pinned_softly_and_the_others_are_not() -> None:
    catalogue = Catalogue.read(Settings(engine="tone", engines={"hibari": {"policy": "HARD_PIN"}}))
    assert catalogue.entry("tone").place.policy == "SOFT_PIN"
    assert catalogue.entry("hibari").place.policy == "HARD_PIN"


def places(**tables: dict[str, Any]) -> list[tuple[str, bool]]:
    """Policy and whether it is hosted, of each engine on MLX that has a table."""
    engines = {name.replace("_", "-"): table for name, table in tables.items()}
    settings = Settings(engine="tone", engines=engines)
    entries = [read_entry(name, settings, frozenset({"cpu"})) for name in engines]
    return [(entry.place.policy, entry.place.hosted) for entry in entries]


def test_s29_the_first_engine_on_mlx_is_pinned_softly_and_the_heavy_second_one_is_not() -> None:
    assert [policy for policy, _ in places(mlx_qwen={}, mlx_voxcpm={})] == ["SOFT_PIN", "UNPINNED"]
    assert [policy for policy, _ in places(mlx_voxcpm={}, mlx_qwen={})] == ["SOFT_PIN", "UNPINNED"]
    assert places(mlx_qwen={"policy": "UNPINNED"}) == [("UNPINNED", False)]


def test_two_engines_on_mlx_are_hosted_unless_their_tables_say_otherwise() -> None:
    """An error in Metal ends the process that it is in."""
    assert [hosted for _, hosted in places(mlx_qwen={})] == [False]
    assert [hosted for _, hosted in places(mlx_qwen={}, mlx_pocket={})] == [True, True]
    assert [hosted for _, hosted in places(mlx_qwen={"process": "inline"}, mlx_pocket={})] == [False, True]


def test_s10_s33_a_hosted_engine_is_known_by_what_its_own_environment_says() -> None:
    entry = Catalogue.read(Settings(engine="tone", engines={"tone": {"process": "hosted"}})).entry("tone")
    assert isinstance(entry.engine, HostedEngine)
    assert entry.place.hosted
    assert entry.facts is not None
    assert entry.facts.checkpoint == "tone-1-24000"


def dispatcher_of(settings: Settings) -> Dispatcher:
    library = Library(Objects(None))
    return make_dispatcher(settings, Catalogue.read(settings, library), library, probe=False)


def test_settings_reach_the_planner() -> None:
    settings = Settings(
        engine="tone", engines={"tone": {"policy": "HARD_PIN"}}, engine_idle_s=77, cache=False
    )
    dispatcher = dispatcher_of(settings)
    assert dispatcher.policy("tone") == "HARD_PIN"
    assert dispatcher.status("tone").device == "cpu"
