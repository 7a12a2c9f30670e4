"""CosyVoice loaded: the library's own streaming generator, a step at a time, and never two of them."""

import gc
import tempfile
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engines.contract import Chunk, CloneMode, EngineError, EngineUnavailable, OptionError, Request, Samples
from engines.cosyvoice_library import abandon, hush_talkers
from engines.cosyvoice_settings import CosyvoiceOptions, CosyvoiceSettings, Generation
from engines.cosyvoice_text import chunks, cross_lingual_text, instruct_text, prompt_text, spoken
from voices.reference import Reference

Prompt = dict[str, Any]
"""The library's own, as it keeps them in `spk2info`: tensors by name, but for those of the text."""
_SPEAKER = "the one that speaks"
_LEAST_HZ, _LONGEST_S = 16000, 30
"""Of a recording; the library asserts both."""
_PATIENCE_S = 10.0
_GOES_ON = "goes_on"
"""Beside the tensors: from words of its own."""


@dataclass(slots=True, eq=False)
class CosyvoiceStream:
    request: Request
    prompt: "Prompt | None"
    """None: a speaker of the checkpoint."""
    pieces: "Generator[Samples, None, None] | None" = None
    over: bool = False


class CosyvoiceModel:
    """One stream at a time: the library's threads and the lengths of its steps are the model's own."""

    def __init__(
        self, library: Any, generation: Generation, settings: CosyvoiceSettings, sample_rate_hz: int
    ) -> None:
        """`library`: its AutoModel."""
        if library.sample_rate != sample_rate_hz:
            raise EngineUnavailable(f"its checkpoint makes {library.sample_rate} Hz, not {sample_rate_hz}")
        self._library: Any = library
        self._generation = generation
        self._settings = settings
        self._hop_tokens = getattr(library.model, "token_hop_len", None)
        self._open: CosyvoiceStream | None = None
        self._heard_again = hush_talkers()
        self._voices: dict[str, Prompt | None] = dict.fromkeys(settings.speakers)
        try:
            self._get_ready()
        except EngineError as error:
            self.unload()
            raise EngineUnavailable(f"cosyvoice couldn't be loaded: {error}") from error
        except BaseException:
            self.unload()
            raise

    def _get_ready(self) -> None:
        missing = sorted(set(self._settings.speakers).difference(self._library.list_available_spks()))
        if missing:
            raise EngineUnavailable(f"the checkpoint has no speaker {', '.join(missing)}")
        for voice in self._settings.recordings:
            self._voices[voice.name] = self._build(voice.read(), voice.mode)
        self._warm_up()

    def _warm_up(self) -> None:
        stream = self.start(Request(text="One.", language="en", voice=next(iter(self._voices))), None)
        while not stream.over:
            self.step([stream])

    def prepare(self, reference: Reference, mode: CloneMode) -> bytes:
        import safetensors.torch
        import torch

        tensors = self._build(reference, mode)
        flat = {name: value.contiguous().cpu() for name, value in tensors.items() if name != _GOES_ON}
        flat[_GOES_ON] = torch.tensor(int(tensors[_GOES_ON]))
        packed: bytes = safetensors.torch.save(flat)
        return packed

    def restore(self, prompt: bytes) -> Prompt:
        import safetensors.torch

        try:
            tensors = safetensors.torch.load(prompt)
            goes_on = bool(tensors.pop(_GOES_ON))
        except Exception as error:
            raise EngineError(f"the prompt can't be read: {error}") from error
        place = self._library.frontend.device
        return {**{name: value.to(place) for name, value in tensors.items()}, _GOES_ON: goes_on}

    def _build(self, reference: Reference, mode: CloneMode) -> Prompt:
        if mode == "audio+text" and not reference.transcript:
            raise EngineError("cosyvoice needs the transcript of the recording to clone it by audio and text")
        said = (reference.transcript or "") if mode == "audio+text" else ""
        frontend = self._library.frontend
        with tempfile.TemporaryDirectory(prefix="cosyvoice-") as folder:
            path = _write(Path(folder) / "reference.wav", reference, whole=mode == "audio+text")
            plain = frontend.text_normalize(
                prompt_text(self._generation, said), split=False, text_frontend=self._settings.text_frontend
            )
            made = frontend.frontend_zero_shot("", plain, str(path), self._library.sample_rate, "")
        kept = {name: value for name, value in made.items() if name not in {"text", "text_len"}}
        return {**kept, _GOES_ON: bool(said)}

    def start(self, request: Request, prompt: "Prompt | None") -> CosyvoiceStream:
        if self._open is not None and not self._open.over:
            raise EngineError("cosyvoice speaks one segment at a time: the one before hasn't been closed")
        if prompt is None:
            if request.voice not in self._voices:
                raise EngineError(f"cosyvoice has no voice {request.voice!r}")
            prompt = self._voices[request.voice]
        if _options(request).instruct.strip() and self._generation == 1 and prompt is not None:
            raise OptionError("instruct", "the first generation of cosyvoice takes it for its speakers alone")
        if _options(request).instruct.strip() and self._generation > 1 and prompt is None:
            raise OptionError("instruct", "a speaker of the checkpoint takes no instruction")
        self._open = CosyvoiceStream(request, prompt)
        return self._open

    def extend(self, stream: CosyvoiceStream, text: str, last: bool) -> None:
        raise EngineError(
            f"cosyvoice's streams don't grow ({stream.request.voice}, {len(text)} characters, {last=})"
        )

    def step(self, streams: "Sequence[CosyvoiceStream]") -> "Sequence[Chunk | EngineError]":
        return [self._advance(stream) for stream in streams]

    def close(self, stream: CosyvoiceStream) -> None:
        """Ends the library's thread as well, whose next token it waits for."""
        stream.over = True
        pieces, stream.pieces = stream.pieces, None
        stream.prompt = None
        if pieces is not None:
            pieces.close()
        if self._open is stream:
            self._open = None

    def unload(self) -> None:
        if self._open is not None:
            self.close(self._open)
        self._voices.clear()
        self._library = None
        self._heard_again()
        gc.collect()

    def _advance(self, stream: CosyvoiceStream) -> "Chunk | EngineError":
        if stream.over:
            return EngineError("the stream has ended")
        if stream.pieces is None:
            stream.pieces = self._pieces(stream)
        piece = None
        try:
            piece = next(stream.pieces, None)
        finally:
            if piece is None:
                self.close(stream)
        if piece is None:
            return Chunk(np.zeros(0, np.float32), last=True)
        return Chunk(piece)

    def _pieces(self, stream: CosyvoiceStream) -> "Generator[Samples, None, None]":
        silence = np.zeros(self._settings.silence_ms * self._library.sample_rate // 1000, np.float32)
        _seed(stream.request.seed)
        for text in chunks(spoken(stream.request.text), self._settings.sentences_per_chunk):
            yield from self._chunk(stream, text)
            if silence.size:
                yield silence

    def _chunk(self, stream: CosyvoiceStream, text: str) -> "Iterator[Samples]":
        network = self._library.model
        if self._hop_tokens is not None:
            # It grows while an utterance is spoken and stays so: the next one's first step would be four times as long.
            network.token_hop_len = self._hop_tokens
        speakers = self._library.frontend.spk2info
        made = self._inference(stream, text)
        ended = False
        try:
            for output in made:
                yield np.clip(output["tts_speech"].reshape(-1).float().numpy(), -1, 1)
            ended = True
        finally:
            made.close()
            speakers.pop(_SPEAKER, None)
            if not ended and not abandon(network, patience_s=_PATIENCE_S):
                raise EngineError("cosyvoice doesn't end an utterance that was cancelled")

    def _inference(self, stream: CosyvoiceStream, text: str) -> "Generator[dict[str, Any], None, None]":
        """The library's own generator."""
        library, generation, prompt = self._library, self._generation, stream.prompt
        instruct = _options(stream.request).instruct.strip()
        given: dict[str, Any] = {"stream": True, "text_frontend": self._settings.text_frontend}
        made: Generator[dict[str, Any], None, None]
        if prompt is None:
            if instruct:
                made = library.inference_instruct(
                    text, stream.request.voice, instruct_text(generation, instruct), **given
                )
            else:
                made = library.inference_sft(text, stream.request.voice, **given)
            return made
        kept = {name: value for name, value in prompt.items() if name != _GOES_ON}
        if instruct:
            # Of a voice that is kept the library takes the kept words, not those that it is given.
            told = instruct_text(generation, instruct)
            kept["prompt_text"], kept["prompt_text_len"] = library.frontend._extract_text_token(told)  # noqa: SLF001 - there is no other way
        library.frontend.spk2info[_SPEAKER] = kept
        given["zero_shot_spk_id"] = _SPEAKER
        if instruct:
            made = library.inference_instruct2(text, instruct_text(generation, instruct), "", **given)
        elif prompt[_GOES_ON]:
            made = library.inference_zero_shot(text, "", "", **given)
        else:
            language = stream.request.language
            made = library.inference_cross_lingual(
                cross_lingual_text(generation, text, language), "", **given
            )
        return made


def _options(request: Request) -> CosyvoiceOptions:
    return CosyvoiceOptions() if request.options is None else request.options


def _seed(seed: int) -> None:
    """For the process, which has nothing else to draw for."""
    import random

    import torch

    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - the library draws from it
    torch.manual_seed(seed)


def _write(path: Path, reference: Reference, *, whole: bool) -> Path:
    import soundfile

    if not reference.samples.size:
        raise EngineError("the recording is empty")
    if reference.sample_rate_hz < _LEAST_HZ:
        raise EngineError(f"cosyvoice needs a recording of {_LEAST_HZ} Hz at the least")
    most_samples = _LONGEST_S * reference.sample_rate_hz
    if whole and reference.samples.size > most_samples:
        raise EngineError(f"a recording with a transcript can have {_LONGEST_S} s at the most")
    soundfile.write(path, reference.samples[:most_samples], reference.sample_rate_hz, subtype="FLOAT")
    return path
