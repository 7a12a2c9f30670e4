"""The contract suite over an engine of the tests' own in a child process, which finds it by its import path."""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from engines.contract import Source
from tests.engines.contract_suite import EngineContract

ROOT = Path(__file__).parents[2]


class HostedFakeContract(EngineContract):
    """Wants a fixture `source`."""

    most_odd_chars: ClassVar[int] = 20
    guarded_texts: ClassVar[list[str]] = ["...", "x"]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def tiny(cls, source: Source) -> Iterator[None]:
        cls.source = source
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(ROOT))
            yield
