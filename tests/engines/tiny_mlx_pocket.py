"""A checkpoint of Pocket TTS for mlx-audio, tiny and random: its real loading code takes it, nobody would listen.

Real are 24 kHz, frames of 80 ms, the streaming codec and its encoder. Faked are weights, widths, tokenizer and voice.
The end never comes by itself: a text's tokens decide.
"""

from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_audio.tts.models.pocket_tts import Model

from tests.engines.tiny_mlx_parts import write_json, write_tokenizer

_WIDTH = 64


def make_checkpoint(folder: Path) -> Path:
    config = _config(write_tokenizer(folder)[""])
    write_json(folder / "config.json", config)
    mx.random.seed(12)
    weights = dict(tree_flatten(Model({**config, "model_path": str(folder)}).parameters()))
    weights["flow_lm.out_eos.bias"] = mx.array([-100.0])
    weights["speaker_proj_weight"] = mx.random.normal(weights["speaker_proj_weight"].shape)
    for name, value in weights.items():
        # A signal fades away in layers as they are made.
        if name.startswith("mimi.decoder.") and name.endswith("weight") and value.ndim == 3:
            gain = 0.3 if "final_conv1d" in name else 1.5
            weights[name] = mx.random.normal(value.shape) * (gain / (value.shape[1] * value.shape[2]) ** 0.5)
        elif name.startswith(("mimi.upsample", "mimi.quantizer")) and name.endswith("weight"):
            weights[name] = mx.random.normal(value.shape) * 0.5
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    (folder / "voices").mkdir(exist_ok=True)
    for seed, name in enumerate(("alba", "jean")):
        mx.random.seed(seed)
        voice = mx.random.normal((1, 10, _WIDTH))
        mx.save_safetensors(str(folder / "voices" / f"{name}.safetensors"), {"audio_prompt": voice})
    mx.clear_cache()
    return folder


def _config(words: int) -> dict[str, Any]:
    flow = {
        "d_model": _WIDTH,
        "num_heads": 4,
        "num_layers": 2,
        "dim_feedforward": 96,
        "max_period": 10000,
        "n_bins": words,
        "lut_dim": _WIDTH,
        "flow_dim": 32,
        "flow_depth": 2,
        "ldim": 8,
    }
    codec = {
        "channels": 1,
        "sample_rate": 24000,
        "frame_rate": 12.5,
        "dimension": 32,
        "quantizer_dimension": 8,
        "quantizer_output_dimension": 32,
        "n_filters": 4,
        "n_residual_layers": 1,
        "ratios": [6, 5, 4],
        "kernel_size": 7,
        "last_kernel_size": 3,
        "residual_kernel_size": 3,
        "dilation_base": 2,
        "compress": 2,
    }
    transformer = {
        "d_model": 32,
        "num_heads": 2,
        "num_layers": 1,
        "layer_scale": 0.01,
        "context": 250,
        "max_period": 10000,
        "dim_feedforward": 48,
    }
    mimi = codec | {f"transformer_{name}": value for name, value in transformer.items()}
    return {"model_type": "pocket_tts", "flow_lm": flow, "mimi": mimi}
