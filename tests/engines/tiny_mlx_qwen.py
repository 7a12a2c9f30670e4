"""Checkpoints of Qwen3-TTS for mlx-audio, tiny and random: its real loading code takes them, nobody would listen.

Real are the files and their layouts (the codec has PyTorch's, which the library turns), 24 kHz, frames of 80 ms, the
streaming codec, the encoders for cloning. Faked are weights, widths, the tokenizer, and 4 codes a frame for 16. The
end never comes by itself: a text's tokens decide.
"""

import re
from pathlib import Path
from typing import Any, Literal

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_audio.tts.models.qwen3_tts import Model, ModelConfig
from mlx_audio.tts.models.qwen3_tts.config import Qwen3TTSTokenizerConfig
from mlx_audio.tts.models.qwen3_tts.speech_tokenizer import Qwen3TTSSpeechTokenizer

from tests.engines.tiny_mlx_parts import write_json, write_tokenizer

Kind = Literal["base", "custom_voice", "voice_design"]
_CODES, _GROUPS = 64, 4
_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<pad>", "<bos>", "<eod>")
_LOUDER = 120.0
"""Random layers fade a signal out; the last one makes up for it."""
_LAYERS = {
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 96,
    "head_dim": 16,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "hidden_act": "silu",
    "num_code_groups": _GROUPS,
}


def make_checkpoint(folder: Path, kind: Kind, *, size: str = "1b7") -> Path:
    ids = write_tokenizer(
        folder,
        words=("assistant", "user"),
        special=_SPECIAL,
        roles={"eos": "<|im_end|>", "pad": "<|endoftext|>"},
    )
    config = _config(kind, size, ids)
    codec = _codec_config(kind)
    write_json(folder / "config.json", config)
    write_json(folder / "speech_tokenizer" / "config.json", codec)
    write_json(
        folder / "generation_config.json", {"temperature": 0.9, "top_k": 50, "repetition_penalty": 1.05}
    )
    mx.random.seed(11)
    weights = dict(tree_flatten(Model(ModelConfig.from_dict(config)).parameters()))
    end = config["talker_config"]["codec_eos_token_id"]
    # The end's logit is that of a row of zeros; the others are made larger, so that it isn't among the fifty.
    weights["talker.codec_head.weight"][end] = 0.0
    weights["talker.codec_head.weight"] *= 20.0
    if kind == "base":
        # Else the network would hardly hear who speaks.
        weights["speaker_encoder.fc.weight"] *= 50.0
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    tokenizer = Qwen3TTSSpeechTokenizer(
        Qwen3TTSTokenizerConfig(
            encoder_config=codec.get("encoder_config"), decoder_config=codec["decoder_config"]
        )
    )
    mx.save_safetensors(str(folder / "speech_tokenizer" / "model.safetensors"), _as_published(tokenizer))
    mx.clear_cache()
    return folder


def _config(kind: Kind, size: str, ids: dict[str, int]) -> dict[str, Any]:
    named = kind == "custom_voice"
    ours = {
        name: _CODES + offset for offset, name in enumerate(("pad", "bos", "eos_token", "think", "nothink"))
    }
    return {
        "model_type": "qwen3_tts",
        "tts_model_type": kind,
        "tts_model_size": size,
        "sample_rate": 24000,
        "im_start_token_id": ids["<|im_start|>"],
        "im_end_token_id": ids["<|im_end|>"],
        "tts_pad_token_id": ids["<pad>"],
        "tts_bos_token_id": ids["<bos>"],
        "tts_eos_token_id": ids["<eod>"],
        "talker_config": {
            **_LAYERS,
            "vocab_size": _CODES + 1024,
            "text_hidden_size": 64,
            "text_vocab_size": ids[""],
            "rope_scaling": {"interleaved": True, "mrope_section": [4, 2, 2], "rope_type": "default"},
            **{f"codec_{name}_id": value for name, value in ours.items()},
            "codec_think_bos_id": _CODES + 5,
            "codec_think_eos_id": _CODES + 6,
            "codec_language_id": {
                "chinese": _CODES + 10,
                "english": _CODES + 11,
                "beijing_dialect": _CODES + 12,
            },
            "spk_id": {"vivian": _CODES + 20, "ryan": _CODES + 21} if named else {},
            "spk_is_dialect": {"vivian": False, "ryan": False} if named else {},
            "code_predictor_config": {**_LAYERS, "vocab_size": _CODES},
        },
        "speaker_encoder_config": {
            "mel_dim": 128,
            "enc_dim": 64,
            "enc_channels": [72, 72, 72, 72, 216],
            "enc_attention_channels": 72,
            "enc_se_channels": 72,
            "enc_res2net_scale": 4,
            "sample_rate": 24000,
        },
    }


def _codec_config(kind: Kind) -> dict[str, Any]:
    """The library guesses a convolution's layout from its shape: channels have to outnumber the kernel."""
    decoder = {
        "latent_dim": 12,
        "codebook_dim": 144,
        "codebook_size": _CODES,
        "decoder_dim": 8,
        "hidden_size": 32,
        "intermediate_size": 48,
        "head_dim": 16,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "num_hidden_layers": 2,
        "num_quantizers": _GROUPS,
        "num_semantic_quantizers": 1,
        "sliding_window": 72,
        "upsample_rates": [],
        "upsampling_ratios": [8, 8, 6, 5],
    }
    encoder = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "num_hidden_layers": 1,
        "head_dim": 16,
        "num_filters": 8,
        "codebook_dim": 16,
        "codebook_size": _CODES,
        "num_quantizers": _GROUPS,
        "upsampling_ratios": [8, 6, 5, 4],
        "sampling_rate": 24000,
        "frame_rate": 12.5,
    }
    return {
        "model_type": "qwen3_tts_tokenizer_12hz",
        "input_sample_rate": 24000,
        "output_sample_rate": 24000,
        "decode_upsample_rate": 1920,
        "encode_downsample_rate": 1920,
        "encoder_valid_num_quantizers": _GROUPS,
        "decoder_config": decoder,
        **({"encoder_config": encoder} if kind == "base" else {}),
    }


def _as_published(tokenizer: Any) -> dict[str, Any]:
    """PyTorch's names and layouts."""
    last = f"decoder.decoder.{len(tokenizer.decoder.decoder) - 1}."
    tensors: dict[str, Any] = {}
    for name, value in tree_flatten(tokenizer.parameters()):
        if name.startswith("encoder_model."):
            tensors |= _encoder_tensors(name.removeprefix("encoder_model."), value)
        elif name.endswith(".codebook.embed.weight"):
            base = name.removesuffix(".codebook.embed.weight")
            tensors[f"{base}._codebook.embedding_sum"] = mx.random.normal(value.shape)
            tensors[f"{base}._codebook.cluster_usage"] = mx.ones((value.shape[0],))
        elif value.ndim == 3:
            turned = value.transpose(2, 0, 1) if ".0.conv.weight" in name and "upsample" in name else None
            plain = value.transpose(0, 2, 1) if turned is None else turned
            tensors[name] = plain * (_LOUDER if name.startswith(last) else 1.0)
        else:
            tensors[name] = value
    return tensors


_SEANET = {"init_conv1d": 0, "final_conv1d": 14} | {f"layers.{n}.downsample": 3 * n + 3 for n in range(4)}
_TRANSFORMER = {
    "self_attn.out_proj": "self_attn.o_proj",
    "gating.linear1": "mlp.fc1",
    "gating.linear2": "mlp.fc2",
    "norm1": "input_layernorm",
    "norm2": "post_attention_layernorm",
    "layer_scale_1": "self_attn_layer_scale",
    "layer_scale_2": "mlp_layer_scale",
}


def _encoder_tensors(name: str, value: Any) -> dict[str, Any]:
    kind = name.rpartition(".")[2]
    flat = value.swapaxes(-1, -2) if value.ndim == 3 else value
    if found := re.match(r"encoder\.layers\.(\d)\.residuals\.0\.block\.(\d)\.", name):
        layer, block = int(found[1]), int(found[2])
        return {f"encoder.encoder.layers.{3 * layer + 1}.block.{2 * block + 1}.conv.{kind}": flat}
    if name.startswith("encoder."):
        number = next(n for part, n in _SEANET.items() if name.startswith(f"encoder.{part}."))
        return {f"encoder.encoder.layers.{number}.conv.{kind}": flat}
    if name.startswith("downsample."):
        return {f"encoder.downsample.conv.{kind}": flat}
    if found := re.match(r"encoder_transformer\.transformer\.layers\.(\d+)\.(.+)\.\w+$", name):
        base = f"encoder.encoder_transformer.layers.{found[1]}"
        if found[2] == "self_attn.in_proj":
            parts = zip("qkv", mx.split(value, 3, axis=0), strict=True)
            return {f"{base}.self_attn.{letter}_proj.weight": part for letter, part in parts}
        return {f"{base}.{_TRANSFORMER[found[2]]}.{kind}": value}
    if name.startswith("quantizer."):
        return _quantizer_tensors(name, value, flat)
    return {}


def _quantizer_tensors(name: str, value: Any, flat: Any) -> dict[str, Any]:
    side = "semantic" if "rvq_first" in name else "acoustic"
    base = f"encoder.quantizer.{side}_residual_vector_quantizer"
    if found := re.search(r"(input_proj|output_proj)\.weight$", name):
        return {f"{base}.{found[1]}.weight": flat}
    if found := re.search(r"layers\.(\d+)\.codebook\.embedding_sum$", name):
        layer = f"{base}.layers.{found[1]}.codebook"
        return {
            f"{layer}.embed_sum": mx.random.normal(value.shape),
            f"{layer}.cluster_usage": mx.ones((value.shape[0],)),
        }
    return {}
