"""Whether the default engine can speak: loaded after the port is bound, warm before traffic comes."""

import anyio

from residency.dispatcher import Dispatcher
from residency.loads import RELOAD_S
from ws_server.log import Log


class Readiness:
    """`problem` says why it can't yet, or at all; None: it can."""

    def __init__(self) -> None:
        self.problem: str | None = "loading"
        self._settled = anyio.Event()

    async def warm_up(self, dispatcher: Dispatcher, unit: str, log: Log) -> None:
        """Until it can, for what stands in the way may be mended while the server runs."""
        while True:
            try:
                await dispatcher.loaded(unit)
            except Exception as error:  # noqa: BLE001 - whatever stops an engine stops it alone; the server tells
                self.problem = f"{unit} couldn't be loaded: {error}"
                log.fault("not ready", engine=unit, why=str(error))
            else:
                self.problem = None
                log.info("ready", engine=unit, max_streams=dispatcher.max_streams)
                return
            finally:
                self._settled.set()
            await anyio.sleep(RELOAD_S)

    async def settled(self) -> None:
        """Until the load has succeeded or failed."""
        await self._settled.wait()
