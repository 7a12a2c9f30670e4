"""S5: libraries beside a torchaudio that doesn't belong to PyTorch, each in a process of its own."""

import importlib.metadata
import subprocess
import sys
from collections.abc import Callable

import pytest

WHY = "PyTorch and torchaudio aren't installed here; make test-engines has them"
torch = pytest.importorskip("torch", reason=WHY)
try:
    importlib.metadata.version("torchaudio")
except importlib.metadata.PackageNotFoundError:
    pytest.skip(WHY, allow_module_level=True)

from engines import torch_audio  # noqa: E402 - after what it may be skipped for
from engines.contract import EngineUnavailable  # noqa: E402

Versions = Callable[[str, str], None]


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> Versions:
    def claim(torch: str, torchaudio: str) -> None:
        known = {"torch": torch, "torchaudio": torchaudio}
        monkeypatch.setattr(importlib.metadata, "version", known.__getitem__)

    return claim


@pytest.mark.parametrize(
    ("torch", "torchaudio"), [("2.11.0+cu128", "2.11.1"), ("2.11.2", "2.11.0"), ("2.8.0", "2.8.0+cpu")]
)
def test_s5_versions_of_one_minor_belong_together(versions: Versions, torch: str, torchaudio: str) -> None:
    versions(torch, torchaudio)
    torch_audio.require_same_minor()


def test_s5_others_are_refused_with_a_command_that_helps(versions: Versions) -> None:
    versions("2.13.0+cu128", "2.11.1")
    with pytest.raises(EngineUnavailable) as refused:
        torch_audio.require_same_minor()
    assert "PyTorch 2.13.0+cu128 and torchaudio 2.11.1" in str(refused.value)
    assert "pip install 'torchaudio==2.13.*'" in str(refused.value)


RESAMPLE = """
import importlib.metadata
before = importlib.metadata.version("torchaudio")
from engines.torch_audio import with_torchaudio
functional = with_torchaudio("torchaudio.functional", same_minor=SAME)
import torch
tone = torch.sin(torch.arange(480) * 0.2)
print(functional.resample(tone, 48000, 24000).shape[0], importlib.metadata.version("torchaudio") == before)
"""


@pytest.mark.skipif(torch.version.cuda is not None, reason="with CUDA the versions have to match")
@pytest.mark.parametrize("same_minor", [False, True])
def test_without_cuda_torchaudio_is_imported_whatever_its_version(same_minor: bool) -> None:
    code = RESAMPLE.replace("SAME", str(same_minor))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["240", "True"]
