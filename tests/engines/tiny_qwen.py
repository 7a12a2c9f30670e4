"""Qwen3-TTS checkpoints of a few hundred kilobytes with random weights, which the library loads as any other.

As the real ones: their tokenizer's kind, 12.5 frames a second, 1920 samples a frame. Smaller: four codebooks of 64. An
utterance ends when its text has been read, a letter a frame: one dimension of the network's is kept for that.
"""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engines.contract import Samples
from engines.torch_audio import with_torchaudio

GROUPS = 4
CODES = 64
WIDTH = 32
_MARKS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>")
_LANGUAGES = {"english": 2, "german": 5, "chinese": 7, "beijing_dialect": 26}
_SPEAKERS = {"vivian": 17, "ryan": 13, "dylan": 30}
_NAMES = {
    "codec_pad_id": 100,
    "codec_bos_id": 101,
    "codec_eos_token_id": 102,
    "codec_think_id": 106,
    "codec_nothink_id": 107,
    "codec_think_bos_id": 108,
    "codec_think_eos_id": 109,
}


def hummed(number: int, rate_hz: int = 24000) -> Samples:
    """Two seconds of somebody: each has a pitch of their own."""
    at_s = np.arange(2 * rate_hz) / rate_hz
    pitch_hz = 110.0 * 1.5**number
    hum = sum(np.sin(2 * np.pi * pitch_hz * part * at_s) / part for part in (1, 2, 3))
    noise = np.random.default_rng(number).standard_normal(at_s.size)
    return (0.1 * hum + 0.01 * noise).astype(np.float32)


def make_checkpoint(folder: Path, kind: str = "base", *, size: str = "1b7", ends: bool = True) -> Path:
    """`ends`: False: an utterance goes on for as long as it is let."""
    with_torchaudio("qwen_tts")
    (folder / "speech_tokenizer").mkdir(parents=True, exist_ok=True)
    words = _write_tokenizer(folder)
    config = _config(kind, size, words)
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    (folder / "generation_config.json").write_text(json.dumps(_GENERATION), "utf-8")
    state = torch.get_rng_state()
    torch.manual_seed(0)
    _write_networks(folder, config, words, ends=ends)
    _write_codec(folder / "speech_tokenizer")
    torch.set_rng_state(state)
    return folder


_GENERATION = {
    "do_sample": True,
    "top_k": 50,
    "top_p": 1.0,
    "temperature": 0.9,
    "repetition_penalty": 1.05,
    "subtalker_dosample": True,
    "subtalker_top_k": 50,
    "subtalker_top_p": 1.0,
    "subtalker_temperature": 0.9,
    "max_new_tokens": 2048,
}


def _write_tokenizer(folder: Path) -> dict[str, int]:
    """A token a byte, but for the word that the library takes for one; the marks' numbers."""
    merges, word = [], "a"
    for letter in "ssistant":
        merges.append((word, letter))
        word += letter
    vocabulary = {token: number for number, token in enumerate([*_bytes(), *(a + b for a, b in merges)])}
    marks = {mark: len(vocabulary) + number for number, mark in enumerate(_MARKS)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False), "utf-8")
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", "utf-8")
    added = {
        str(number): {
            "content": mark,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "single_word": False,
            "special": True,
        }
        for mark, number in marks.items()
    }
    about = {
        "tokenizer_class": "Qwen2Tokenizer",
        "model_max_length": 131072,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "errors": "replace",
        "add_prefix_space": False,
        "split_special_tokens": False,
        "clean_up_tokenization_spaces": False,
        "bos_token": None,
        "unk_token": None,
        "added_tokens_decoder": added,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(about), "utf-8")
    return marks


def _bytes() -> list[str]:
    """The character by which byte-level tokenizers write each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    named = {byte: chr(byte) for byte in plain} | {byte: chr(256 + at) for at, byte in enumerate(others)}
    return [named[byte] for byte in range(256)]


def _config(kind: str, size: str, marks: dict[str, int]) -> dict[str, Any]:
    network = {
        "hidden_size": WIDTH,
        "intermediate_size": 64,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "num_code_groups": GROUPS,
        "max_position_embeddings": 4096,
        "pad_token_id": None,
    }
    speakers = {name: CODES + at for name, at in _SPEAKERS.items()} if kind == "custom_voice" else {}
    talker = {
        **network,
        **{name: CODES + at for name, at in _NAMES.items()},
        "num_hidden_layers": 2,
        "vocab_size": CODES + 1024,
        "text_hidden_size": WIDTH,
        "text_vocab_size": max(marks.values()) + 1,
        "rope_theta": 1000000,
        "rope_scaling": {
            "rope_type": "default",
            "type": "default",
            "mrope_section": [4, 2, 2],
            "interleaved": True,
        },
        "codec_language_id": {name: CODES + at for name, at in _LANGUAGES.items()},
        "spk_id": speakers,
        "spk_is_dialect": {name: "beijing_dialect" if name == "dylan" else False for name in speakers},
        "code_predictor_config": {**network, "num_hidden_layers": 1, "vocab_size": CODES},
    }
    return {
        "model_type": "qwen3_tts",
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_model_size": size,
        "tts_model_type": kind,
        "im_start_token_id": marks["<|im_start|>"],
        "im_end_token_id": marks["<|im_end|>"],
        "tts_pad_token_id": marks["<tts_pad>"],
        "tts_bos_token_id": marks["<tts_text_bos>"],
        "tts_eos_token_id": marks["<tts_text_eod>"],
        "talker_config": talker,
        "speaker_encoder_config": {
            "enc_dim": WIDTH,
            "enc_channels": [16, 16, 16, 16, 48],
            "enc_attention_channels": 8,
            "enc_res2net_scale": 2,
            "enc_se_channels": 8,
        },
    }


def _write_networks(folder: Path, config: dict[str, Any], marks: dict[str, int], *, ends: bool) -> None:
    from qwen_tts.core.models import Qwen3TTSConfig, Qwen3TTSForConditionalGeneration

    library_config = Qwen3TTSConfig(
        **{name: copy.deepcopy(value) for name, value in config.items() if name != "model_type"}
    )
    model = Qwen3TTSForConditionalGeneration(library_config)
    with torch.no_grad():
        for value in model.parameters():
            if value.dim() >= 2:
                value.normal_(0, 0.3)
        if model.speaker_encoder is not None:
            _tell_speakers_apart(model)
        _keep_a_dimension(
            model.talker,
            end=config["talker_config"]["codec_eos_token_id"],
            padding=marks["<tts_pad>"],
            ends=ends,
        )
    _save(model, folder)


def _tell_speakers_apart(model: Any) -> None:
    """What all recordings have in common would be all that is heard of any."""
    last = model.speaker_encoder.fc
    last.weight.mul_(0.1)
    last.bias.sub_(model.eval().extract_speaker_embedding(hummed(1), 24000))


def _keep_a_dimension(talker: Any, *, end: int, padding: int, ends: bool) -> None:
    """The last one says that the text is over: padding alone has it, nothing on the way changes it, and the token at
    the end of an utterance is the only one that looks at it.
    """
    last = WIDTH - 1
    talker.model.text_embedding.weight[:, last] = 0
    if ends:
        talker.model.text_embedding.weight[padding, last] = 30
    first, second = talker.text_projection.linear_fc1, talker.text_projection.linear_fc2
    first.weight[last] = 0
    first.weight[:, last] = 0
    second.weight[last] = 0
    second.weight[:, last] = 0
    first.weight[last, last] = second.weight[last, last] = 1
    first.bias[last] = 0
    second.bias[last] = -3
    talker.model.codec_embedding.weight[:, last] = 0
    for table in talker.code_predictor.model.codec_embedding:
        table.weight[:, last] = 0
    for layer in talker.model.layers:
        layer.self_attn.o_proj.weight[last] = 0
        layer.mlp.down_proj.weight[last] = 0
    talker.codec_head.weight[:, last] = 0
    talker.codec_head.weight[end] = 0
    talker.codec_head.weight[end, last] = 10


def _write_codec(folder: Path) -> None:
    from qwen_tts.core import Qwen3TTSTokenizerV2Config, Qwen3TTSTokenizerV2Model
    from transformers import EncodecFeatureExtractor

    shared = {
        "codebook_size": CODES,
        "codebook_dim": 16,
        "hidden_size": WIDTH,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "intermediate_size": 64,
        "num_quantizers": GROUPS,
    }
    encoder = {
        **shared,
        "num_hidden_layers": 1,
        "num_filters": 4,
        "vector_quantization_hidden_dimension": 16,
        "num_semantic_quantizers": 1,
        "upsample_groups": 32,
        "frame_rate": 12.5,
        "sampling_rate": 24000,
        "upsampling_ratios": [8, 6, 5, 4],
        "use_causal_conv": True,
        "rope_theta": 10000.0,
    }
    decoder = {
        **shared,
        "num_hidden_layers": 2,
        "latent_dim": WIDTH,
        "sliding_window": 72,
        "upsample_rates": [8, 5, 4, 3],
        "upsampling_ratios": [2, 2],
        "decoder_dim": 32,
    }
    rates = {
        "input_sample_rate": 24000,
        "output_sample_rate": 24000,
        "decode_upsample_rate": 1920,
        "encode_downsample_rate": 1920,
    }
    made_of = {
        "encoder_config": encoder,
        "decoder_config": decoder,
        "encoder_valid_num_quantizers": GROUPS,
        "architectures": ["Qwen3TTSTokenizerV2Model"],
    }
    model = Qwen3TTSTokenizerV2Model(Qwen3TTSTokenizerV2Config(**copy.deepcopy(made_of)))
    with torch.no_grad():
        for name, value in model.named_parameters():
            if name.endswith("embedding_sum"):
                value.normal_(0, 1.0)
            elif value.dim() >= 2 and name.startswith("decoder."):
                value.normal_(0, 0.15)
        model.decoder.decoder[-1].conv.weight.mul_(0.05)
        for name, value in model.named_buffers():
            if name.endswith("embed_sum"):
                value.normal_(0, 1.0)
            elif name.endswith(("cluster_usage", "initialized")):
                value.fill_(1.0)
    _save(model, folder)
    about = {"model_type": "qwen3_tts_tokenizer_12hz", **made_of, **rates}
    (folder / "config.json").write_text(json.dumps(about), "utf-8")
    EncodecFeatureExtractor(feature_size=1, sampling_rate=24000, padding_value=0.0).save_pretrained(folder)


def _save(model: Any, folder: Path) -> None:
    """Not save_pretrained: it and the library don't agree on what weights may share."""
    from safetensors.torch import save_file

    weights = {name: value.contiguous().clone() for name, value in model.state_dict().items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
