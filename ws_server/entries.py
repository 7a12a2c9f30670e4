"""The engines of the registry, as they are here: where each runs, and whether it can be used."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from engines import registry
from engines.contract import Engine, EngineUnavailable, Facts, Info, OptionError, Source, info_of
from engines.hosted import HostedEngine
from residency.planner import Policy
from ws_server.accelerators import choose
from ws_server.placement import Place, Placement, read_table
from ws_server.settings import BadSettings, Settings

CPU = Place("cpu", hosted=False, policy="UNPINNED")
_KILLED_AT = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An engine of the registry, as it is here."""

    name: str
    engine: Engine
    info: Info
    source: Source
    installed: bool
    facts: Facts | None
    """None: it can't be used; `problem` says why."""
    problem: str | None = None
    place: Place = CPU


def read_entry(name: str, settings: Settings, here: Collection[str]) -> Entry:
    """`here`: the devices of this machine. Raises BadSettings."""
    try:
        placement, source = read_table(settings.engines.get(name, {}))
    except ValueError as error:
        raise BadSettings(f"engines.{name}.{error}") from None
    engine = _engine(name, placement, settings)
    installed, facts, problem = True, None, None
    place = Place("cpu", hosted=placement.process == "hosted", policy=_policy(name, placement, settings))
    try:
        # A hosted one says by itself what its environment lacks.
        if engine.info.hosted and not place.hosted:
            installed, problem = False, _elsewhere(name)
        elif not place.hosted and (command := registry.missing(engine)) is not None:
            installed, problem = False, f"the library of engine {name!r} isn't installed: {command}"
        else:
            device = choose(name, engine.info.devices, placement.device or settings.device, here)
            place = replace(place, device=device)
            facts = engine.identify(source)
    except EngineUnavailable as error:
        problem = str(error)
    except OptionError as error:
        raise BadSettings(f"engines.{name}.{error.param}: {error}") from None
    return Entry(
        name=name,
        engine=engine,
        info=engine.info if facts is None else info_of(engine.info, facts),
        source=source,
        installed=installed,
        facts=facts,
        problem=problem,
        place=place,
    )


def _engine(name: str, placement: Placement, settings: Settings) -> Engine:
    engine = registry.describe(name)
    if placement.process == "inline":
        return engine
    # A little before its lane counts as stalled: a process that hangs is ended, and the lane goes on.
    step_s = _KILLED_AT * settings.step_deadline_s
    load_s = _KILLED_AT * settings.load_deadline_s
    return HostedEngine(engine, registry.target(name), python=placement.python, step_s=step_s, load_s=load_s)


def _elsewhere(name: str) -> str:
    return (
        f'engine {name!r} runs in a process of its own: engines.{name}.process = "hosted", and python = '
        "the interpreter of its environment"
    )


def _policy(name: str, placement: Placement, settings: Settings) -> Policy:
    if placement.policy is not None:
        return placement.policy
    return "SOFT_PIN" if name == settings.engine else "UNPINNED"
