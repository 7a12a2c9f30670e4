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
_ABORTING = frozenset({"mlx"})
"""Extras whose library can end the whole process when two of its models compute at once, without a word."""


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
    hosted = _hosted(name, placement, settings)
    engine = _engine(name, placement, settings, hosted=hosted)
    installed, facts, problem = True, None, None
    place = Place("cpu", hosted=hosted, policy=_policy(name, placement, settings))
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


def _hosted(name: str, placement: Placement, settings: Settings) -> bool:
    if placement.process is not None:
        return placement.process == "hosted"
    return name in (together := _together(name, settings)) and len(together) > 1


def _together(name: str, settings: Settings) -> list[str]:
    """The engines that somebody means to use and that share such a library with this one, the default engine first."""
    extra = registry.describe(name).info.extra
    if extra not in _ABORTING:
        return []
    known = registry.names()
    meant = dict.fromkeys(other for other in (settings.engine, *settings.engines) if other in known)
    return [other for other in meant if registry.describe(other).info.extra == extra]


def _engine(name: str, placement: Placement, settings: Settings, *, hosted: bool) -> Engine:
    engine = registry.describe(name)
    if not hosted:
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
    first = name == settings.engine or _together(name, settings)[:1] == [name]
    return "SOFT_PIN" if first else "UNPINNED"
