"""A checkpoint of VoxCPM 2, tiny and random: the library's real loading code takes it; nobody would listen to it.

Rates are the real ones (16 kHz in, 48 kHz out, steps of 160 ms); the layers are small. A random network would end where
chance has it, so its opinion is taken away: each text runs to the longest that its tokens allow.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaTokenizerFast

from engines.voxcpm_library import import_voxcpm, quietly

STEP_SAMPLES = 7680
RATE_HZ = 48000
_RESERVED = 110
"""101 to 104 mark recordings."""
_LINES = [
    "The train to the coast leaves at half past nine every day, and she sells sea shells by the sea shore.",
    "Good morning, everyone. The second sentence is a little longer than the first one was. Stop!",
]


def make_checkpoint(folder: Path) -> Path:
    import_voxcpm()
    from voxcpm.model.voxcpm2 import VoxCPM2Model, VoxCPMConfig
    from voxcpm.modules.audiovae import AudioVAEConfigV2, AudioVAEV2

    folder.mkdir(parents=True, exist_ok=True)
    config = _config(_make_tokenizer(folder))
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    with quietly(), torch.random.fork_rng():
        torch.manual_seed(0)
        decoder = AudioVAEV2(config=AudioVAEConfigV2(**config["audio_vae_config"]))
        network = VoxCPM2Model(
            VoxCPMConfig(**config), LlamaTokenizerFast.from_pretrained(str(folder)), decoder, device="cpu"
        )
    network.stop_head.weight.data.zero_()
    own = {name: value for name, value in network.state_dict().items() if not name.startswith("audio_vae.")}
    for name, tensors in (("model", own), ("audiovae", decoder.state_dict())):
        save_file({key: value.contiguous() for key, value in tensors.items()}, folder / f"{name}.safetensors")
    return folder


def change(folder: Path, **tensors: torch.Tensor | None) -> None:
    """Of the network's weights; None: it goes. Dots are two underscores."""
    file = folder / "model.safetensors"
    weights = load_file(file)
    for name, value in tensors.items():
        weights.pop(name.replace("__", "."), None)
        if value is not None:
            weights[name.replace("__", ".")] = value
    save_file(weights, file)


def _make_tokenizer(folder: Path) -> int:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))  # noqa: S106 - no password
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<unk>", "<s>", "</s>", *(f"<reserved_{number}>" for number in range(3, _RESERVED))]
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=special,
        initial_alphabet=["\u2581", *map(chr, range(33, 127))],
        show_progress=False,
    )
    tokenizer.train_from_iterator(_LINES, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    plain = {
        "tokenizer_class": "LlamaTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "add_bos_token": False,
        "add_eos_token": False,
        "legacy": False,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(plain), "utf-8")
    return int(tokenizer.get_vocab_size())


def _config(words: int) -> dict[str, Any]:
    small = {"hidden_dim": 32, "ffn_dim": 64, "num_heads": 2, "num_layers": 1, "kv_channels": 16}
    flow = {"sigma_min": 1e-6, "solver": "euler", "t_scheduler": "log-norm", "inference_cfg_rate": 2.0}
    return {
        "architecture": "voxcpm2",
        "lm_config": {
            "bos_token_id": 1,
            "eos_token_id": 2,
            "hidden_size": 32,
            "intermediate_size": 64,
            "max_position_embeddings": 1024,
            "num_attention_heads": 2,
            "num_hidden_layers": 2,
            "num_key_value_heads": 1,
            "rms_norm_eps": 1e-5,
            "rope_scaling": {
                "type": "longrope",
                "long_factor": [1.0] * 8,
                "short_factor": [1.0] * 8,
                "original_max_position_embeddings": 1024,
            },
            "vocab_size": words,
            "use_mup": False,
            "scale_emb": 1.0,
            "dim_model_base": 32,
            "scale_depth": 1.0,
            "rope_theta": 10000.0,
            "kv_channels": 16,
        },
        "patch_size": 4,
        "feat_dim": 16,
        "residual_lm_num_layers": 1,
        "residual_lm_no_rope": True,
        "scalar_quantization_latent_dim": 16,
        "scalar_quantization_scale": 9,
        "encoder_config": small,
        "dit_config": small | {"dit_mean_mode": False, "cfm_config": flow},
        "audio_vae_config": {
            "encoder_dim": 8,
            "encoder_rates": [2, 5, 8, 8],
            "latent_dim": 16,
            "decoder_dim": 128,
            "decoder_rates": [8, 6, 5, 2, 2, 2],
            "depthwise": True,
            "sample_rate": 16000,
            "out_sample_rate": RATE_HZ,
            "sr_bin_boundaries": [20000, 30000, 40000],
        },
        "max_length": 1024,
        "device": "cuda",
        "dtype": "bfloat16",
    }
