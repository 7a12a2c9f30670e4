"""Puts the catalogue's engines, guarded, under one dispatcher."""

from functools import partial
from typing import Any

from engines.contract import Facts, Info, Model
from engines.guards import Guarded
from residency.dispatcher import Dispatcher
from residency.probe import default_probes
from residency.rules import Rules
from residency.units import Unit
from ws_server.catalogue import Catalogue, Entry
from ws_server.settings import Settings


def make_dispatcher(
    settings: Settings, catalogue: Catalogue, *, device: str = "cpu", probe: bool = True
) -> Dispatcher:
    """`probe`: each engine speaks for up to a second after its load, to learn what it costs."""
    default = catalogue.default_engine
    # The dispatcher answers for its first unit where none is named.
    entries = sorted(catalogue.entries(), key=lambda entry: entry.name != default)
    rules = Rules(
        engine_threads=settings.engine_threads,
        max_load=settings.max_load,
        max_streams=settings.max_streams,
        max_queue=settings.queue,
        queue_wait_s=settings.queue_wait_s,
        stall_s=settings.step_deadline_s,
        preload=(default,),
    )
    usable = [(entry, entry.facts) for entry in entries if entry.facts is not None]
    return Dispatcher([_unit(entry, facts, device, probe=probe) for entry, facts in usable], rules)


def _unit(entry: Entry, facts: Facts, device: str, *, probe: bool) -> Unit:
    return Unit(
        name=entry.name,
        engine=entry.engine,
        source=entry.source,
        device=device,
        facts=facts,
        guard=partial(_guard, facts, entry.info),
        probes=default_probes(entry.info, facts) if probe else (),
    )


def _guard(facts: Facts, info: Info, model: Model[Any, Any]) -> Model[Any, Any]:
    return Guarded(model, facts, info)
