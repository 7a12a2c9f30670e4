"""An engine whose weights are on a hub."""

from dataclasses import replace

from engines import hub
from engines.contract import EngineUnavailable, Facts, Info, Source
from engines.tone import ToneEngine, ToneModel
from tests.fakes.hub import REPO

NAME = "fetching"
TARGET = "tests.fakes.fetching:engine"
WEIGHTS = b"weights " * 3_000_000
"""More than the client takes at a time, 10 MB."""


class FetchingEngine(ToneEngine):
    """Settings: `endpoint`, `file`, `revision`."""

    @property
    def info(self) -> Info:
        return replace(super().info, name=NAME)

    def identify(self, source: Source) -> Facts:
        return replace(super().identify(Source()), checkpoint=f"{source.settings['revision']}")

    def fetch(self, source: Source) -> None:
        settings = source.settings
        hub.fetch(REPO, settings["file"], settings["revision"], engine=NAME, endpoint=settings["endpoint"])

    def load(self, source: Source, device: str) -> ToneModel:
        file = hub.cached(REPO, source.settings["file"], source.settings["revision"])
        if file is None or file.read_bytes() != WEIGHTS:
            raise EngineUnavailable("the weights aren't whole")
        return super().load(Source(), device)


engine = FetchingEngine()
