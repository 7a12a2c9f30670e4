"""A voice as VoxCPM takes it: computed from recordings once, kept as safetensors, restored without them."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors.torch
import torch

from engines.contract import CloneMode, EngineError
from engines.voxcpm_library import DecoderState
from engines.voxcpm_settings import WithText
from voices.reference import Reference

if TYPE_CHECKING:
    from voxcpm.model import VoxCPM2Model

Denoise = Callable[[Path], Path]
_LONGEST_S = 60
_REFERENCE, _PROMPT, _TEXT = "ref_audio_feat", "audio_feat", "prompt_text"


@dataclass(frozen=True, slots=True)
class VoxcpmPrompt:
    cache: dict[str, Any]
    """As the library's `build_prompt_cache` makes it."""
    decoder: DecoderState | None = None
    """Where it goes on from, for the model that has it in memory."""

    @property
    def goes_on(self) -> bool:
        """From words of its own: an instruction before the text would be read out."""
        return _PROMPT in self.cache

    @property
    def latents(self) -> Any:
        """Of what it goes on from, or None."""
        return self.cache.get(_PROMPT)

    @property
    def steps(self) -> int:
        """Places that it takes in the network's memory, but for its transcript."""
        reference, prompt = self.cache.get(_REFERENCE), self.cache.get(_PROMPT)
        return (0 if reference is None else len(reference) + 2) + (0 if prompt is None else len(prompt))

    @property
    def text(self) -> str:
        return str(self.cache.get(_TEXT, ""))


def build(
    library: "VoxCPM2Model",
    reference: Reference,
    mode: CloneMode,
    *,
    with_text: WithText,
    denoise: Denoise | None,
) -> VoxcpmPrompt:
    """The recording alone is a reference for the voice. A tone, else the recording with its transcript, is gone on
    from, which keeps how it was said as well. Raises EngineError.
    """
    if mode == "audio+text" and not reference.transcript:
        raise EngineError("voxcpm needs the transcript of the recording to clone it by audio and text")
    goes_on = reference.tone or (reference if mode == "audio+text" else None)
    if goes_on is not None and not goes_on.transcript:
        raise EngineError("voxcpm needs the transcript of the recording whose tone is to be kept")
    alone = goes_on is not reference or with_text == "ultimate"
    with _files(reference if alone else None, goes_on, denoise) as (reference_path, prompt_path):
        made = library.build_prompt_cache(
            prompt_text=None if goes_on is None else goes_on.transcript,
            prompt_wav_path=prompt_path,
            reference_wav_path=reference_path,
        )
    return VoxcpmPrompt(made)


def pack(prompt: VoxcpmPrompt) -> bytes:
    tensors = {
        name: prompt.cache[name].contiguous() for name in (_REFERENCE, _PROMPT) if name in prompt.cache
    }
    if _TEXT in prompt.cache:
        tensors[_TEXT] = torch.tensor(list(prompt.text.encode()), dtype=torch.uint8)
    packed: bytes = safetensors.torch.save(tensors)
    return packed


def unpack(data: bytes, *, patch: tuple[int, int]) -> VoxcpmPrompt:
    """`patch`: the shape of one step's latents. Raises EngineError."""
    try:
        tensors = safetensors.torch.load(data)
    except (safetensors.SafetensorError, ValueError) as error:
        raise EngineError(f"the prompt can't be read: {error}") from error
    latents = {name: tensors[name] for name in (_REFERENCE, _PROMPT) if name in tensors}
    fits = all(value.dim() == 3 and tuple(value.shape[1:]) == patch for value in latents.values())
    if not latents or not fits or (_PROMPT in tensors) != (_TEXT in tensors):
        raise EngineError("the prompt can't be read: it isn't one of this checkpoint")
    made: dict[str, Any] = dict(latents)
    if _TEXT in tensors:
        made[_TEXT] = bytes(tensors[_TEXT].tolist()).decode()
    goes_on = "ref_continuation" if _REFERENCE in latents else "continuation"
    made["mode"] = goes_on if _PROMPT in latents else "reference"
    return VoxcpmPrompt(made)


@contextmanager
def _files(
    reference: Reference | None, prompt: Reference | None, denoise: Denoise | None
) -> Iterator[tuple[str | None, str | None]]:
    """The library reads recordings from files alone."""
    with tempfile.TemporaryDirectory(prefix="voxcpm-") as folder:
        paths: list[str | None] = []
        for name, each in (("reference", reference), ("prompt", prompt)):
            if each is None:
                paths.append(None)
                continue
            path = _write(Path(folder) / f"{name}.wav", each, whole=each is prompt)
            paths.append(str(path if denoise is None else denoise(path)))
        yield paths[0], paths[1]


def _write(path: Path, recording: Reference, *, whole: bool) -> Path:
    import soundfile

    most_samples = _LONGEST_S * recording.sample_rate_hz
    if not recording.samples.size:
        raise EngineError("the recording is empty")
    if whole and recording.samples.size > most_samples:
        raise EngineError(f"a recording with a transcript can have {_LONGEST_S} s at the most")
    samples = recording.samples[:most_samples]
    soundfile.write(path, samples, recording.sample_rate_hz, subtype="FLOAT")
    return path
