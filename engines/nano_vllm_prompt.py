"""A voice as nano-vllm-voxcpm takes it: latents computed from recordings once, kept as JSON."""

import io
import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass

from engines.contract import CloneMode, EngineError
from engines.voxcpm_settings import WithText
from voices.reference import Reference

Encode = Callable[[bytes], bytes]
"""A WAV file to latents."""
_LONGEST_S = 60


@dataclass(frozen=True, slots=True)
class NanoPrompt:
    reference: "bytes | None"
    """Latents of what gives the voice."""
    prompt: "bytes | None"
    """Of what is gone on from; `text` is said in it."""
    text: str = ""


def build(encode: Encode, reference: Reference, mode: CloneMode, with_text: WithText) -> NanoPrompt:
    """As voxcpm does. Raises EngineError."""
    if mode == "audio+text" and not reference.transcript:
        raise EngineError("voxcpm needs the transcript of the recording to clone it by audio and text")
    goes_on = reference.tone or (reference if mode == "audio+text" else None)
    if goes_on is not None and not goes_on.transcript:
        raise EngineError("voxcpm needs the transcript of the recording whose tone is to be kept")
    alone = goes_on is not reference or with_text == "ultimate"
    return NanoPrompt(
        encode(_wav(reference, whole=False)) if alone else None,
        None if goes_on is None else encode(_wav(goes_on, whole=True)),
        "" if goes_on is None else goes_on.transcript or "",
    )


def pack(prompt: NanoPrompt) -> bytes:
    latents = {"reference": prompt.reference, "prompt": prompt.prompt}
    texts = {name: None if value is None else b64encode(value).decode() for name, value in latents.items()}
    return json.dumps({**texts, "text": prompt.text}).encode()


def unpack(data: bytes) -> NanoPrompt:
    """Raises EngineError."""
    try:
        read = json.loads(data)
        latents = [None if read[name] is None else b64decode(read[name]) for name in ("reference", "prompt")]
        text = str(read["text"])
    except (ValueError, KeyError, TypeError) as error:
        raise EngineError(f"the prompt can't be read: {error}") from error
    if latents == [None, None] or (latents[1] is None) != (not text):
        raise EngineError("the prompt can't be read: it lacks a part")
    return NanoPrompt(latents[0], latents[1], text)


def _wav(recording: Reference, *, whole: bool) -> bytes:
    import soundfile

    most_samples = _LONGEST_S * recording.sample_rate_hz
    if not recording.samples.size:
        raise EngineError("the recording is empty")
    if whole and recording.samples.size > most_samples:
        raise EngineError(f"a recording with a transcript can have {_LONGEST_S} s at the most")
    file = io.BytesIO()
    soundfile.write(file, recording.samples[:most_samples], recording.sample_rate_hz, "FLOAT", format="WAV")
    return file.getvalue()
