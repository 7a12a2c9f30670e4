"""An engine whose library starts a process of its own and tells its id in the place of its memory."""

import subprocess
import sys

from engines.contract import Source
from engines.tone import ToneEngine, ToneModel
from engines.tone_settings import ToneSettings


class WorkerModel(ToneModel):
    def __init__(self) -> None:
        super().__init__(ToneSettings(), lambda _: None)
        self._worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])

    def peak_bytes(self) -> int:
        return self._worker.pid


class WorkerEngine(ToneEngine):
    def load(self, source: Source, device: str) -> ToneModel:
        return WorkerModel()


engine = WorkerEngine()
