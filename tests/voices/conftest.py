"""A library in a folder that isn't there yet."""

from pathlib import Path

import pytest

from voices.library import Library
from voices.objects import Objects


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def library(folder: Path) -> Library:
    return Library(Objects(folder))
