"""A checkpoint of Pocket TTS, tiny and random: the library's real loading code takes it; nobody would listen to it.

Rates are the real ones (24 kHz, frames of 80 ms); the layers are small. A random network would say at once that it has
ended, so that is biased away: each piece of text runs to its longest.
"""

from pathlib import Path

import torch
import yaml
from pocket_tts import TTSModel
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

_LINES = [
    "The train to the coast leaves at half past nine every day, and she sells sea shells by the sea shore.",
    "Good morning, everyone. The second sentence is a little longer than the first one was. Stop!",
]


def make_checkpoint(folder: Path) -> Path:
    """Its configuration; the weights and the tokenizer are beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    words = _make_tokenizer(folder / "tokenizer.json")
    config = _config(folder, words)
    bare = folder / "bare.yaml"
    bare.write_text(yaml.safe_dump(config | {"weights_path": None}), "utf-8")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = TTSModel.load_model(config=str(bare))
        with torch.no_grad():
            model.flow_lm.speaker_proj_weight.normal_(0, 0.2)
            model.flow_lm.out_eos.bias.fill_(-50.0)
    save_file(
        {name: value.contiguous().clone() for name, value in model.state_dict().items()},
        folder / "model.safetensors",
    )
    bare.unlink()
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump(config), "utf-8")
    return path


def _make_tokenizer(path: Path) -> int:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))  # noqa: S106 - no password
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(prepend_scheme="always"), pre_tokenizers.Punctuation("isolated")]
    )
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<unk>"],
        initial_alphabet=["\u2581", *map(chr, range(33, 127))],
        show_progress=False,
    )
    tokenizer.train_from_iterator(_LINES, trainer)
    tokenizer.save(str(path))
    return int(tokenizer.get_vocab_size())


def _config(folder: Path, words: int) -> dict[str, object]:
    convolutions = {
        "dimension": 32,
        "channels": 1,
        "n_filters": 4,
        "n_residual_layers": 1,
        "ratios": [6, 5, 4],
        "kernel_size": 7,
        "residual_kernel_size": 3,
        "last_kernel_size": 3,
        "dilation_base": 2,
        "pad_mode": "constant",
        "compress": 2,
    }
    attention = {
        "d_model": 32,
        "num_heads": 2,
        "num_layers": 2,
        "layer_scale": 0.01,
        "context": 250,
        "dim_feedforward": 64,
        "input_dimension": 32,
        "output_dimensions": [32],
    }
    return {
        "weights_path": str(folder / "model.safetensors"),
        "flow_lm": {
            "insert_bos_before_voice": True,
            "dtype": "float32",
            "flow": {"depth": 2, "dim": 32, "type": "lsd"},
            "transformer": {
                "d_model": 32,
                "hidden_scale": 2,
                "max_period": 10000,
                "num_heads": 2,
                "num_layers": 2,
            },
            "lookup_table": {
                "dim": 32,
                "n_bins": words,
                "tokenizer": "tokenizers",
                "tokenizer_path": str(folder / "tokenizer.json"),
            },
        },
        "mimi": {
            "dtype": "float32",
            "sample_rate": 24000,
            "inner_dim": 8,
            "outer_dim": 32,
            "channels": 1,
            "frame_rate": 12.5,
            "seanet": convolutions,
            "transformer": attention,
            "quantizer": {"dimension": 8, "output_dimension": 32},
        },
    }
