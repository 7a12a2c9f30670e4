"""What the engines on MLX have in common, without a checkpoint."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

WHY = "the extra mlx isn't installed here; make test-engines has it"
pytest.importorskip("mlx.core", reason=WHY, exc_type=ImportError)
pytest.importorskip("mlx_audio", reason=WHY)

import mlx.core as mx  # noqa: E402 - after what it may be skipped for
from mlx import nn  # noqa: E402

from engines import mlx_settings, registry  # noqa: E402
from engines.contract import EngineError, EngineUnavailable, Source  # noqa: E402
from engines.mlx_prompts import pack, tensor_names, unpack  # noqa: E402
from engines.mlx_runtime import RandomState, Runtime, numbers, resampled  # noqa: E402
from engines.mlx_settings import checkpoint_folder, read_config  # noqa: E402
from engines.mlx_streams import LengthCap, grouped  # noqa: E402
from engines.mlx_twin import twin  # noqa: E402

NAMES = ["mlx-qwen", "mlx-voxcpm", "mlx-pocket"]


# Random states ----------------------------------------------------------------------------------------------------


def drawn(count: int = 3) -> list[float]:
    values: list[float] = mx.random.uniform(shape=(count,)).tolist()
    return values


@pytest.mark.parametrize("seed", [0, 7, 2**32 + 5, 2**63 - 1])
def test_two_random_states_in_turns_draw_what_each_would_alone(seed: int) -> None:
    mx.random.seed(seed)
    alone = [drawn(), drawn()]
    one, other = RandomState(seed), RandomState(seed + 1)
    with one:
        first = drawn()
    with other:
        drawn()
    with one:
        assert [first, drawn()] == alone


def test_the_threads_own_random_state_is_as_before_even_after_an_error() -> None:
    mx.random.seed(3)
    expected = drawn()
    mx.random.seed(3)
    with pytest.raises(ZeroDivisionError), RandomState(9):
        print([1 / value for value in (*drawn(), 0)])
    assert drawn() == expected


# Numbers ----------------------------------------------------------------------------------------------------------


def test_half_precision_leaves_as_float32() -> None:
    samples = numbers(mx.array([[0.5, -0.25]], dtype=mx.bfloat16))
    assert samples.dtype == np.float32
    assert samples.tolist() == [0.5, -0.25]


def test_a_tone_keeps_its_pitch_when_it_is_resampled() -> None:
    tone = np.sin(2 * np.pi * 440 * np.arange(16000) / 16000).astype(np.float32)
    heard = resampled(tone, 16000, 24000)
    assert heard.size == 24000
    assert np.abs(np.fft.rfft(heard)).argmax() == 440


# Weights that are shared ------------------------------------------------------------------------------------------


class Counting(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(64, 64), nn.Linear(64, 64)]
        self.same = self.layers[0]
        self.parts = {"a": nn.Linear(64, 64)}
        self.activation = nn.gelu
        self._last: Any = None


def test_a_twin_shares_its_arrays_and_not_its_state() -> None:
    module = Counting()
    mx.eval(module.parameters())
    before_bytes = mx.get_active_memory()
    other = twin(module)
    other._last = 5
    other.layers[0].count = 3
    assert mx.get_active_memory() == before_bytes
    assert module._last is None
    assert not hasattr(module.layers[0], "count")
    assert other.same is other.layers[0]
    assert other.same is not module.same
    assert other.parts["a"] is not module.parts["a"]
    assert other.layers[1].weight is module.layers[1].weight
    assert other.activation is module.activation


# Steps and lengths ------------------------------------------------------------------------------------------------


def test_steps_grow_from_one_frame() -> None:
    assert [len(group) for group in grouped(iter(range(13)), 4)] == [1, 2, 4, 4, 2]
    assert [len(group) for group in grouped(iter(range(3)), 1)] == [1, 1, 1]
    assert [len(group) for group in grouped(iter(range(8)), 3)] == [1, 2, 3, 2]
    assert list(grouped(iter(()), 4)) == []


def test_a_length_has_its_share_for_each_token_and_some_to_spare() -> None:
    assert LengthCap(6.0, 40).frames(10) == 100
    assert LengthCap(0.1, 0).frames(1) == 1, "one at least"


# Prompts ----------------------------------------------------------------------------------------------------------


def test_a_prompt_is_a_safetensors_file_with_its_transcript(tmp_path: Path) -> None:
    data = pack({"a": np.arange(6, dtype=np.float32).reshape(2, 3).T}, "Grüß Gott")
    tensors, text = unpack(data, "a")
    assert text == "Grüß Gott"
    assert tensors["a"].tolist() == [[0, 3], [1, 4], [2, 5]]
    (tmp_path / "prompt.safetensors").write_bytes(data)
    assert mx.load(str(tmp_path / "prompt.safetensors"))["a"].shape == (3, 2)
    assert tensor_names(tmp_path / "prompt.safetensors") == {"a"}


def test_a_prompt_without_what_is_needed_is_an_engine_error() -> None:
    with pytest.raises(EngineError, match="lacks b"):
        unpack(pack({"a": np.zeros(1, np.float32)}), "a", "b")


# Where it can be --------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "darwin", reason="this machine may have Metal")
def test_a_machine_without_metal_says_so() -> None:
    with pytest.raises(EngineUnavailable, match=r"no Apple GPU \(Metal\)"):
        Runtime("mps", cache_limit_bytes=0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("path", "told"),
    [
        (None, r"needs a checkpoint: engines\.mlx-\w+\.path"),
        ("/nowhere/at/all", r"/nowhere/at/all has no config\.json"),
        ("nobody/nothing", r"neither a folder here nor downloaded from the hub: hf download nobody/nothing"),
    ],
)
def test_a_checkpoint_that_is_not_there_says_what_to_do(name: str, path: str | None, told: str) -> None:
    """The hub isn't asked: it would be a name that a client can't give, but an operator can misspell."""
    with pytest.raises(EngineUnavailable, match=told):
        registry.describe(name).identify(Source(path=path))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("config", "told"),
    [("{", "can't be read"), ('{"model_type": "llama"}', "checkpoint of llama"), ("[]", "something else")],
)
def test_a_folder_of_something_else_says_so(name: str, config: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(EngineUnavailable, match=told):
        registry.describe(name).identify(Source(path=str(tmp_path)))


def test_a_repository_that_was_downloaded_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    snapshot = tmp_path / "models--some--model" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text('{"model_type": "qwen3_tts"}')
    (tmp_path / "models--some--model" / "refs").mkdir()
    (tmp_path / "models--some--model" / "refs" / "main").write_text("abc")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    folder = checkpoint_folder("mlx-qwen", Source(path="some/model"))
    assert folder == snapshot
    assert read_config("mlx-qwen", folder, ["qwen3_tts"]) == {"model_type": "qwen3_tts"}


def test_a_machine_that_mlx_does_not_run_on_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    with pytest.raises(EngineUnavailable, match="on Apple Silicon and on Linux, not on darwin x86_64"):
        checkpoint_folder("mlx-qwen", Source(path="/srv"))


def test_without_the_library_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlx_settings, "installed_versions", lambda: "")
    with pytest.raises(EngineUnavailable, match=r"pip install 'saystream\[mlx\]'"):
        checkpoint_folder("mlx-qwen", Source(path="/srv"))
