"""Loads and unloads an engine again and again in this process: `python -m tests.residency.cycles hibari inline 6`.

Prints, for each cycle, the bytes of memory before, while it is loaded, and after.
"""

import asyncio
import sys

from engines import registry
from engines.contract import Engine, Source
from engines.hosted import HostedEngine
from residency.dispatcher import Dispatcher
from residency.giving_back import resident_bytes
from residency.probe import default_probes
from residency.units import Unit


async def cycle(name: str, *, hosted: bool, times: int) -> None:
    engine: Engine = registry.find(name)
    if hosted:
        engine = HostedEngine(engine, registry.target(name))
    facts = engine.identify(Source())
    unit = Unit(
        name=name,
        engine=engine,
        source=Source(),
        device="cpu",
        facts=facts,
        hosted=hosted,
        probes=default_probes(engine.info, facts),
    )
    async with Dispatcher([unit]) as dispatcher:
        for _ in range(times):
            before_bytes = resident_bytes()
            await dispatcher.loaded(name)
            loaded_bytes = resident_bytes()
            await dispatcher.unloaded(name)
            print(before_bytes, loaded_bytes, resident_bytes(), flush=True)


if __name__ == "__main__":
    asyncio.run(cycle(sys.argv[1], hosted=sys.argv[2] == "hosted", times=int(sys.argv[3])))
