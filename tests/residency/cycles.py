"""Loads and unloads an engine again and again in this process: `python -m tests.residency.cycles hibari inline 6`.

Prints, for each cycle, the bytes of memory before, while it is loaded, and after. A fourth argument is the engine's
table of settings as JSON.
"""

import asyncio
import json
import sys
from collections.abc import Mapping
from typing import Any

from engines import registry
from engines.contract import Engine, info_of
from engines.hosted import HostedEngine
from residency.dispatcher import Dispatcher
from residency.giving_back import resident_bytes
from residency.probe import default_probes
from residency.units import Unit
from ws_server.placement import read_table


async def cycle(name: str, table: Mapping[str, Any], *, hosted: bool, times: int) -> None:
    _, source = read_table(table)
    engine: Engine = registry.find(name)
    if hosted:
        engine = HostedEngine(engine, registry.target(name))
    facts = engine.identify(source)
    unit = Unit(
        name=name,
        engine=engine,
        source=source,
        device="cpu",
        facts=facts,
        hosted=hosted,
        probes=default_probes(info_of(engine.info, facts), facts)[:1],
    )
    async with Dispatcher([unit]) as dispatcher:
        for _ in range(times):
            before_bytes = resident_bytes()
            await dispatcher.loaded(name)
            loaded_bytes = resident_bytes()
            await dispatcher.unloaded(name)
            print(before_bytes, loaded_bytes, resident_bytes(), flush=True)


if __name__ == "__main__":
    given = json.loads(sys.argv[4]) if len(sys.argv) > 4 else {}
    asyncio.run(cycle(sys.argv[1], given, hosted=sys.argv[2] == "hosted", times=int(sys.argv[3])))
