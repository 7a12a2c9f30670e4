"""The decoder of Qwen3-TTS's codec: checked when it is loaded, one for each stream."""

from pathlib import Path
from typing import Any

from engines.contract import EngineUnavailable, Samples
from engines.mlx_runtime import Array, numbers
from engines.mlx_twin import twin

_TOLD = 3


def whole_decoder(tokenizer: Any, folder: Path, *, hears: bool) -> Any:
    """The decoder of a loaded codec with the weights of its folder, all of them. Raises EngineUnavailable.

    `hears`: its other half, which turns recordings into codes, is needed as well, and has to be whole.

    The library takes whatever tensors there are, in any shape, and leaves the rest random, which hisses. It also
    hides its decoder behind a compiled function, which has no streaming; so this one is made anew, with the arrays of
    the files, and takes the other's place.
    """
    import mlx.core as mx
    from mlx.utils import tree_flatten

    raw: dict[str, Array] = {}
    for file in sorted((folder / "speech_tokenizer").glob("*.safetensors")):
        raw.update(mx.load(str(file)))
    kind = type(tokenizer)
    found = kind.sanitize(raw)
    fresh = kind(tokenizer.config)
    wanted = {
        name: value.shape
        for name, value in tree_flatten(fresh.parameters())
        if hears or not name.startswith("encoder_model.")
    }
    missing = [name for name in wanted if name not in found and not name.endswith(".initialized")]
    wrong = [name for name, shape in wanted.items() if name in found and found[name].shape != shape]
    if missing or wrong:
        what = " and ".join(filter(None, (_told("missing", missing), _told("of another shape", wrong))))
        raise EngineUnavailable(f"the codec in {folder / 'speech_tokenizer'} isn't whole: {what}")
    prefix = "decoder."
    own = [(name.removeprefix(prefix), found[name]) for name in wanted if name.startswith(prefix)]
    decoder = fresh.decoder
    decoder.load_weights(own, strict=True)
    decoder.eval()
    mx.eval(decoder.parameters())
    return decoder


def _told(what: str, names: list[str]) -> str:
    if not names:
        return ""
    return f"{len(names)} tensors {what} ({', '.join(names[:_TOLD])})"


class Decoding:
    """Of one stream: the arrays of the model's decoder, a state of its own."""

    def __init__(self, decoder: Any) -> None:
        self._decoder = twin(decoder)
        self._decoder.reset_streaming_state()

    def samples(self, codes: list[Array]) -> Samples:
        """`codes`: of consecutive frames, each [1, groups]."""
        import mlx.core as mx

        together = mx.transpose(mx.stack(codes, axis=1), (0, 2, 1))
        return numbers(self._decoder.streaming_step(together))
