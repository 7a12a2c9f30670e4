"""The library `voxcpm`, loaded so that a checkpoint which doesn't fit is an error and not noise."""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from engines.contract import EngineUnavailable
from engines.torch_audio import with_torchaudio

if TYPE_CHECKING:
    from voxcpm.model import VoxCPM2Model

T = TypeVar("T")
_NAMED = 3
_WARM_STEPS = 3
"""What the library decodes before the first sample that it keeps."""


@contextmanager
def quietly() -> Iterator[None]:
    """Without what its libraries say of each other's future."""
    with warnings.catch_warnings():
        for kind in (DeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", kind)
        yield


def import_voxcpm() -> None:
    """Sets the process's number of threads. Raises EngineUnavailable."""
    with quietly():
        with_torchaudio("voxcpm")


def load(folder: Path, *, device: str, dtype: str, optimize: bool) -> "VoxCPM2Model":
    """Raises EngineUnavailable."""
    try:
        model: VoxCPM2Model = _strict_class(dtype).from_local(str(folder), optimize=optimize, device=device)
    except EngineUnavailable:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or repr(error)
        raise EngineUnavailable(f"voxcpm couldn't be loaded: {reason}") from error
    return model


DecoderState = Mapping[int, Any]
"""What each convolution remembers, by the module's identity: of one loaded model."""


def decoder_after(library: "VoxCPM2Model", latents: Any) -> DecoderState:
    """The decoder's state at the end of a recording, [steps, n, channels]; may be asked for beside an open stream."""
    import torch

    last = latents[-_WARM_STEPS:].to(library.device, library.stop_head.weight.dtype).float()
    with torch.inference_mode(), library.audio_vae.streaming_decode() as decoder:
        decoder.decode_chunk(last.flatten(0, 1).T[None])
        return dict(decoder._states)  # noqa: SLF001 - replaced by each step, never changed


@contextmanager
def going_on_from(library: "VoxCPM2Model", state: DecoderState | None) -> Iterator[None]:
    """Inside, the decoder begins where a recording ends, as it does when all is decoded at once. Streams of the
    library's own begin cold, which is heard.
    """
    if state is None:
        yield
        return
    decoder = library.audio_vae
    cold = decoder.streaming_decode

    @contextmanager
    def warm() -> Iterator[Any]:
        with cold() as streaming:
            streaming._states.update(state)  # noqa: SLF001 - there is no other way
            yield streaming

    decoder.streaming_decode = warm
    try:
        yield
    finally:
        del decoder.streaming_decode


@cache
def _strict_class(dtype: str) -> Any:
    """The library loads what fits and leaves the rest of a network random; this one has to get all of it."""
    import_voxcpm()
    from voxcpm.model import voxcpm2

    voxcpm2.tqdm = _without_a_bar

    class StrictVoxcpm(voxcpm2.VoxCPM2Model):  # type: ignore[misc]
        def __init__(self, config: Any, *arguments: Any, **named: Any) -> None:
            config.dtype = dtype
            super().__init__(config, *arguments, **named)

        def load_state_dict(
            self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
        ) -> Any:
            del strict
            result = super().load_state_dict(state_dict, strict=False, assign=assign)
            faults = [
                f"{len(names)} tensors {what} ({', '.join(sorted(names)[:_NAMED])} ...)"
                for what, names in (
                    ("are missing", result.missing_keys),
                    ("aren't the network's", result.unexpected_keys),
                )
                if names
            ]
            if faults:
                raise EngineUnavailable(f"the weights don't fit their config.json: {'; '.join(faults)}")
            return result

    return StrictVoxcpm


def _without_a_bar(steps: Iterable[T]) -> Iterable[T]:
    return steps
