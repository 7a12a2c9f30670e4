"""An engine that takes any uploaded voice, as one that isn't for tests does."""

from dataclasses import replace

from engines.contract import Info
from engines.tone import ToneEngine

NAME = "cloning"
TARGET = "tests.fakes.cloning:engine"


class CloningEngine(ToneEngine):
    @property
    def info(self) -> Info:
        return replace(super().info, name=NAME, synthetic=False)


engine = CloningEngine()
