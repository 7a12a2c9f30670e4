"""Engines in a process of their own keep the contract that they keep inline."""

from typing import ClassVar

from engines import registry
from engines.contract import Source
from engines.hosted import HostedEngine
from tests.engines.contract_suite import EngineContract


def hosted(name: str, python: str | None = None) -> HostedEngine:
    return HostedEngine(registry.describe(name), registry.target(name), python=python)


class TestHostedTone(EngineContract):
    engine = hosted("tone")


class TestHostedToneBatchesAndGrows(EngineContract):
    engine = hosted("tone")
    source: ClassVar[Source] = Source(
        settings={"step_ms": 80, "max_batch": 4, "grows": True, "sample_rate_hz": 48000}
    )


class TestHostedHibari(EngineContract):
    engine = hosted("hibari")
