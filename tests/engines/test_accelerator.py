"""S1: an engine for an accelerator doesn't speak, ten times too slowly, where there is none."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engines.accelerator import installed_build, require_device
from engines.contract import EngineUnavailable


def torch(*, cuda: bool = False, mps: bool = False, built: str | None = "12.8") -> Any:
    return SimpleNamespace(
        __version__="2.13.0",
        version=SimpleNamespace(cuda=built),
        cuda=SimpleNamespace(is_available=lambda: cuda),
        backends=SimpleNamespace(mps=SimpleNamespace(is_available=lambda: mps)),
    )


def test_s1_without_a_gpu_the_message_names_what_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(EngineUnavailable) as refused:
        require_device(torch(), "cuda:0")
    assert str(refused.value) == (
        "PyTorch 2.13.0 (built for CUDA 12.8) sees no GPU; CUDA_VISIBLE_DEVICES is ''"
    )


def test_s1_a_build_without_cuda_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with pytest.raises(EngineUnavailable, match=r"built without CUDA.*CUDA_VISIBLE_DEVICES isn't set"):
        require_device(torch(built=None), "cuda")


def test_s1_without_an_apple_gpu_the_message_says_so() -> None:
    with pytest.raises(EngineUnavailable, match="MPS"):
        require_device(torch(), "mps")


def test_what_is_there_is_accepted() -> None:
    require_device(torch(), "cpu")
    require_device(torch(cuda=True), "cuda")
    require_device(torch(mps=True), "mps")


@pytest.mark.parametrize(
    ("cuda", "told"), [("'12.8'", "built for CUDA 12.8"), ("None", "built without CUDA")]
)
def test_s1_the_installed_build_is_told_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cuda: str, told: str
) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "version.py").write_text(f"__version__ = '9.9.1'\ncuda = {cuda}\n")
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert installed_build() == f"PyTorch 9.9.1 ({told})"
