"""docs/engines.md is true: its example runs, its tables are complete."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engines import registry
from engines.contract import Request, Source
from engines.cosyvoice_settings import CosyvoiceOptions, CosyvoiceSettings
from engines.dots import DotsOptions, DotsSettings
from engines.guards import Guarded
from engines.kokoro import KokoroSettings
from engines.mlx_pocket import PocketOptions as MlxPocketOptions
from engines.mlx_pocket import PocketSettings as MlxPocketSettings
from engines.mlx_qwen import QwenOptions as MlxQwenOptions
from engines.mlx_settings import MlxSettings
from engines.mlx_voxcpm import VoxcpmOptions as MlxVoxcpmOptions
from engines.mlx_voxcpm import VoxcpmSettings as MlxVoxcpmSettings
from engines.nano_vllm_settings import NanoOptions, NanoSettings
from engines.pocket import PocketOptions, PocketSettings
from engines.qwen_options import QwenOptions, QwenSettings
from engines.tone_settings import FAULTS, ToneOptions, ToneSettings
from engines.vits_voice import VitsSettings
from engines.voxcpm_settings import VoxcpmOptions, VoxcpmSettings
from tests.engines.speaking import speak

PAGE = (Path(__file__).parents[2] / "docs" / "engines.md").read_text("utf-8")


def test_the_example_engine_speaks() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - the page's own example
    engine = names["engine"]
    model = engine.load(Source(), "cpu")
    result = speak(
        Guarded(model, engine.identify(Source()), engine.info),
        Request(text="one three", language="en", voice="wood"),
    )
    assert (result.samples == 0.5).sum() == 80
    assert np.flatnonzero(result.samples)[40] == 0.3 * 16000


def test_every_engine_is_in_the_table() -> None:
    assert set(re.findall(r"^\| `([a-z-]+)`(?: \(default\))? \|", PAGE, re.MULTILINE)) >= set(
        registry.names()
    )


def test_every_setting_option_and_fault_of_tone_is_on_the_page() -> None:
    section = PAGE.split("## tone")[1].split("\n## ")[0]
    named = set(re.findall(r"`([a-z_0-9]+)`", section))
    assert {field.name for field in fields(ToneSettings)} <= named
    assert {field.name for field in fields(ToneOptions)} <= named
    assert set(FAULTS) <= named


def test_every_voice_of_the_default_engine_is_on_the_page() -> None:
    voices = registry.describe("hibari").info.voices
    assert all(f"`{voice.voice_id}`" in PAGE for voice in voices)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("vits", VitsSettings),
        ("kokoro", KokoroSettings),
        ("pocket", PocketSettings),
        ("pocket", PocketOptions),
        ("qwen", QwenSettings),
        ("qwen", QwenOptions),
        ("cosyvoice", CosyvoiceSettings),
        ("cosyvoice", CosyvoiceOptions),
        ("nano-vllm-voxcpm", NanoSettings),
        ("nano-vllm-voxcpm", NanoOptions),
        ("dots", DotsSettings),
        ("dots", DotsOptions),
        ("voxcpm", VoxcpmSettings),
        ("voxcpm", VoxcpmOptions),
        ("MLX", MlxSettings),
        ("MLX", MlxVoxcpmSettings),
        ("MLX", MlxPocketSettings),
        ("mlx-qwen", MlxQwenOptions),
        ("mlx-voxcpm", MlxVoxcpmOptions),
        ("mlx-pocket", MlxPocketOptions),
    ],
)
def test_every_setting_and_option_is_on_the_page(name: str, settings: Any) -> None:
    section = PAGE.split(f"## {name}\n")[1].split("\n## ")[0]
    named = set(re.findall(r"[a-z_0-9]+", section))
    assert {field.name for field in fields(settings)} <= named
