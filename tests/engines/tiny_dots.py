"""A checkpoint of dots.tts, tiny and random: the library's real loading code takes it; nobody would listen to it.

Rates are the real ones (48 kHz, patches of 160 ms); the layers are small. A random network wouldn't know when to stop,
so one thing is made by hand: each letter of the text weighs down a dimension of the language model's state, each
patch of sound lifts it, and above zero the text has been said.
"""

import warnings
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from engines.dots_library import import_library

_LINES = [
    "The train to the coast leaves at half past nine every day, and she sells sea shells by the sea shore.",
    "Good morning, everyone. The second sentence is a little longer than the first one was. Stop!",
]
_SPECIAL = ["<|endoftext|>"] + [
    f"<|{name}|>"
    for name in (
        "audio_comp_start",
        "audio_comp_span",
        "audio_comp_end",
        "audio_gen_start",
        "audio_gen_span",
        "audio_gen_end",
        "text_cond_end",
    )
]
_WIDTH = 32
_COUNTED, _SUM = 0, 1
"""Dimensions of the language model's state: what each position adds, and the mean of it so far."""
PATCHES_PER_LETTER = 0.3
_NO_SCALING = 1e6
"""Added to the mean square of a state before it is scaled by it: far above any, so that sums stay sums."""
_STREAMING = {"interleave_mode": "buffered_ratio", "initial_lookahead": 3, "ta_per_tta": 2, "warmup_ta": 1}
_FIXED = {"solver": "scm", "num_steps": 2, "guidance_scale": 0.0}


def make_checkpoint(folder: Path, *, takes_text_while_it_speaks: bool = False, fixed: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    import_library()
    from dots_tts.models.dots_tts.config import ModelConfig
    from dots_tts.models.dots_tts.model import DotsTtsModel
    from transformers import Qwen2Config

    tokenizer = _make_tokenizer()
    config = _config() | ({"streaming": _STREAMING} if takes_text_while_it_speaks else {})
    config |= {"sampling": _FIXED} if fixed else {}
    statistics = folder / "statistics.pt"
    torch.save({"mean": torch.zeros(16), "var": torch.ones(16)}, statistics)
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        torch.manual_seed(0)
        model = DotsTtsModel(
            ModelConfig.model_validate(config),
            tokenizer=tokenizer,
            latent_stats_path=statistics,
            llm_config=Qwen2Config(
                vocab_size=len(tokenizer),
                hidden_size=_WIDTH,
                intermediate_size=64,
                num_hidden_layers=1,
                num_attention_heads=2,
                num_key_value_heads=1,
                max_position_embeddings=4096,
                tie_word_embeddings=True,
                rms_norm_eps=_NO_SCALING,
            ),
        )
        with torch.no_grad():
            _make_audible(model)
            _make_it_stop(model, tokenizer)
    model.save_pretrained(folder)
    statistics.unlink()
    return folder


def _make_tokenizer() -> Any:
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
        special_tokens=_SPECIAL,
    )
    tokenizer.train_from_iterator(_LINES, trainer)
    end = _SPECIAL[0]
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=end, pad_token=end)


def _make_audible(model: Any) -> None:
    """Its last layers begin as zeros, and an untrained vocoder all but whispers."""
    for parameter in model.core.parameters():
        if parameter.dim() >= 2 and not parameter.any():
            parameter.normal_(0, 0.2)
    for parameter in model.vocoder.decoder.parameters():
        if parameter.dim() == 3:
            parameter.normal_(0, 0.1)


def _make_it_stop(model: Any, tokenizer: Any) -> None:
    core = model.core
    layer = core.llm.model.layers[0]
    words = core.llm.get_input_embeddings().weight
    words.normal_(0, 1)
    words[:, [_COUNTED, _SUM]] = 0
    for token in range(len(tokenizer)):
        text = tokenizer.decode([token])
        if text not in _SPECIAL:
            words[token, _COUNTED] = -sum(each.isascii() and each.isalnum() for each in text)
    out = core.patch_encoder.out_proj
    out.weight[[_COUNTED, _SUM]] = 0
    out.bias[_SUM] = 0
    out.bias[_COUNTED] = 1 / PATCHES_PER_LETTER
    for norm in (layer.input_layernorm, layer.post_attention_layernorm, core.llm.model.norm):
        norm.weight.fill_(_NO_SCALING**0.5)
    attention = layer.self_attn
    attention.q_proj.weight.zero_()
    attention.q_proj.bias.zero_()
    attention.v_proj.weight[0].zero_()
    attention.v_proj.weight[0, _COUNTED] = 1
    attention.v_proj.bias.zero_()
    attention.o_proj.weight[[_COUNTED, _SUM]] = 0
    attention.o_proj.weight[_SUM, 0] = 1
    layer.mlp.down_proj.weight[[_COUNTED, _SUM]] = 0
    first, _, second = core.eos_proj
    first.weight.zero_()
    first.bias.zero_()
    first.weight[0, _SUM] = 1e4
    second.weight.zero_()
    second.weight[1, 0] = 1e4
    second.bias.copy_(torch.tensor([10.0, -10.0]))


def _config() -> dict[str, Any]:
    small = {"num_layers": 1, "num_heads": 2, "hidden_size": _WIDTH, "ffn_hidden_size": 64}
    return {
        "latent_dim": 16,
        "patch_size": 4,
        "PatchEncoder": {**small, "input_dim": _WIDTH},
        "DiT": small,
        "campplus_embedding_size": 32,
        "vocoder": {
            "sample_rate": 48000,
            "upsample_rates": [48, 40],
            "upsample_kernel_sizes": [96, 80],
            "upsample_initial_channel": 16,
            "resblock": "1",
            "resblock_kernel_sizes": [3],
            "resblock_dilation_sizes": [[1, 1, 1]],
            "downsample_rates": [40, 48],
            "downsample_channels": [12] * 3,
            "use_bias_at_final": False,
            "latent_dim": 16,
            "causal": True,
            "causal_encoder": True,
            "mi_num_layers": 1,
        },
    }
