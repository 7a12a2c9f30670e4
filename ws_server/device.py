"""Puts the catalogue's engines, guarded, under one dispatcher."""

from functools import partial
from typing import Any

from engines.contract import Facts, Info, Model
from engines.guards import Guarded
from residency.dispatcher import Dispatcher
from residency.probe import default_probes
from residency.rules import Rules
from residency.units import Unit
from voices.library import Library
from voices.prompts import StoredPrompts
from ws_server.catalogue import Catalogue, Entry
from ws_server.settings import Settings


def make_dispatcher(
    settings: Settings,
    catalogue: Catalogue,
    library: Library,
    *,
    device: str = "cpu",
    probe: bool = True,
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
        max_step_s=settings.max_step_ms / 1000,
        stall_s=settings.step_deadline_s,
        preload=(default,),
        live_prompt_bytes=settings.live_prompt_bytes,
    )
    usable = [(entry, entry.facts) for entry in entries if entry.facts is not None]
    return Dispatcher([_unit(entry, facts, device, library, probe=probe) for entry, facts in usable], rules)


def _unit(entry: Entry, facts: Facts, device: str, library: Library, *, probe: bool) -> Unit:
    prompts = StoredPrompts(
        library, engine=entry.name, version=entry.info.version, checkpoint=facts.checkpoint
    )
    return Unit(
        name=entry.name,
        engine=entry.engine,
        source=entry.source,
        device=device,
        facts=facts,
        guard=partial(_guard, facts, entry.info),
        probes=default_probes(entry.info, facts) if probe else (),
        prompts=prompts,
    )


def _guard(facts: Facts, info: Info, model: Model[Any, Any]) -> Model[Any, Any]:
    return Guarded(model, facts, info)
