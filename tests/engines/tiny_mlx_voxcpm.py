"""Checkpoints of VoxCPM for mlx-audio, tiny and random: its real loading code takes them, nobody would listen.

Real are files, special tokens, the diffusion and the causal codec with its rates (VoxCPM 2: 16 kHz in, 48 kHz out,
patches of 160 ms). Faked are weights, widths and the tokenizer. The end never comes by itself: a text's tokens decide.
"""

import copy
import importlib
from pathlib import Path
from typing import Any, Literal

import mlx.core as mx
from mlx.utils import tree_flatten

from tests.engines.tiny_mlx_parts import write_json, write_tokenizer

Generation = Literal["voxcpm", "voxcpm2"]
_WIDTH, _LATENT = 64, 16


def make_checkpoint(folder: Path, generation: Generation = "voxcpm2") -> Path:
    ids = write_tokenizer(folder, special=("<s>", "</s>"), roles={"bos": "<s>", "eos": "</s>"})
    config = _config(generation, ids)
    write_json(folder / "config.json", config)
    module = importlib.import_module(f"mlx_audio.tts.models.{generation}")
    mx.random.seed(13)
    weights = dict(tree_flatten(module.Model(module.ModelArgs.from_dict(copy.deepcopy(config))).parameters()))
    weights["stop_head.weight"] = mx.zeros_like(weights["stop_head.weight"])
    for name, value in weights.items():
        # A signal fades away in layers as they are made, and only their biases would be heard.
        if name.startswith("audio_vae.decoder.") and name.endswith("weight") and value.ndim == 3:
            gain = 0.3 if "conv_out" in name else 1.0
            weights[name] = mx.random.normal(value.shape) * (gain / (value.shape[1] * value.shape[2]) ** 0.5)
        elif name.startswith("audio_vae.decoder.") and name.endswith("bias"):
            weights[name] = mx.zeros_like(value)
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    mx.clear_cache()
    return folder


def _config(generation: Generation, ids: dict[str, int]) -> dict[str, Any]:
    second = generation == "voxcpm2"
    side: dict[str, Any] = {"hidden_dim": _WIDTH, "ffn_dim": 96, "num_heads": 4, "num_layers": 1}
    words: dict[str, Any] = {
        "hidden_size": _WIDTH,
        "intermediate_size": 96,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_hidden_layers": 2,
        "vocab_size": ids[""],
        "bos_token_id": ids["<s>"],
        "eos_token_id": ids["</s>"],
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "rope_scaling": {
            "type": "longrope",
            "long_factor": [1.0] * 8,
            "short_factor": [1.0] * 8,
            "original_max_position_embeddings": 32768,
        },
        "max_position_embeddings": 32768,
        "scale_emb": 12,
        "dim_model_base": 256,
        "scale_depth": 1.4,
        "use_mup": False,
    }
    codec: dict[str, Any] = {
        "encoder_dim": 8,
        "encoder_rates": [2, 5, 8, 8],
        "latent_dim": _LATENT,
        "sample_rate": 16000,
        "decoder_dim": 64,
        "decoder_rates": [8, 8, 5, 2],
    }
    if second:
        words["kv_channels"] = side["kv_channels"] = 16
        codec |= {
            "decoder_dim": 64,
            "decoder_rates": [8, 6, 5, 2, 2, 2],
            "depthwise": True,
            "out_sample_rate": 48000,
            "sr_bin_boundaries": [20000, 30000, 40000],
        }
    return {
        "architecture": generation,
        "model_type": generation,
        "lm_config": words,
        "patch_size": 4,
        "feat_dim": _LATENT,
        "residual_lm_num_layers": 1,
        "scalar_quantization_latent_dim": 16,
        "scalar_quantization_scale": 9,
        "encoder_config": side,
        "dit_config": {
            **side,
            "cfm_config": {
                "sigma_min": 1e-6,
                "solver": "euler",
                "t_scheduler": "log-norm",
                "inference_cfg_rate": 2.0,
            },
        },
        "audio_vae_config": codec,
        "max_length": 512,
        "dtype": "float32",
    }
