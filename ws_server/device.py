"""Puts the catalogue's engines, guarded, under one dispatcher."""

from functools import partial
from typing import Any

from engines.contract import Facts, Info, Model
from engines.guards import Guarded
from residency.dispatcher import Dispatcher
from residency.planner import MemoryRules
from residency.probe import default_probes
from residency.rules import Rules
from residency.units import Unit
from voices.library import Library
from voices.prompts import StoredPrompts
from ws_server.accelerators import memory_bytes
from ws_server.catalogue import Catalogue
from ws_server.entries import Entry
from ws_server.folders import user_cache_folder
from ws_server.settings import BadSettings, Settings

FOOTPRINTS_FILE = "footprints.json"


def make_dispatcher(
    settings: Settings,
    catalogue: Catalogue,
    library: Library,
    *,
    probe: bool = True,
) -> Dispatcher:
    """`probe`: each engine speaks for up to a second after its load, to learn what it costs. Raises BadSettings."""
    default = catalogue.default_engine
    # The dispatcher answers for its first unit where none is named.
    entries = sorted(catalogue.entries(), key=lambda entry: entry.name != default)
    usable = [(entry, entry.facts) for entry in entries if entry.facts is not None]
    accelerators = {entry.place.device for entry, _ in usable} - {"cpu"}
    cache_dir = settings.cache_dir or user_cache_folder() if settings.cache else None
    rules = Rules(
        engine_threads=settings.engine_threads,
        max_load=settings.max_load,
        max_streams=settings.max_streams,
        max_queue=settings.queue,
        queue_wait_s=settings.queue_wait_s,
        max_step_s=settings.max_step_ms / 1000,
        stall_s=settings.step_deadline_s,
        load_s=settings.load_deadline_s,
        preload=(default,),
        live_prompt_bytes=settings.live_prompt_bytes,
        policies={entry.name: entry.place.policy for entry, _ in usable},
        memory={
            "cpu": MemoryRules(idle_s=settings.engine_idle_s),
            **{device: _accelerator_rules(device, settings) for device in accelerators},
        },
        footprints_file=None if cache_dir is None else cache_dir / FOOTPRINTS_FILE,
    )
    return Dispatcher([_unit(entry, facts, library, probe=probe) for entry, facts in usable], rules)


def _accelerator_rules(device: str, settings: Settings) -> MemoryRules:
    size_bytes = settings.memory_bytes or memory_bytes(device)
    if size_bytes is None and settings.coload:
        raise BadSettings(f"memory_bytes: the size of {device}'s memory isn't known; coload needs it")
    return MemoryRules(
        # One engine at a time needs no figure.
        capacity_bytes=size_bytes or 1,
        coload=settings.coload,
        swap_s=settings.swap_wait_s,
        idle_s=settings.engine_idle_s,
    )


def _unit(entry: Entry, facts: Facts, library: Library, *, probe: bool) -> Unit:
    prompts = StoredPrompts(
        library, engine=entry.name, version=entry.info.version, checkpoint=facts.checkpoint
    )
    return Unit(
        name=entry.name,
        engine=entry.engine,
        source=entry.source,
        device=entry.place.device,
        hosted=entry.place.hosted,
        facts=facts,
        guard=partial(_guard, facts, entry.info),
        probes=default_probes(entry.info, facts) if probe else (),
        prompts=prompts,
    )


def _guard(facts: Facts, info: Info, model: Model[Any, Any]) -> Model[Any, Any]:
    return Guarded(model, facts, info)
