"""Qwen3-TTS loaded: utterances that are open at once and advance together, a frame of 80 ms at a time."""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, fields
from io import StringIO
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from torch import Tensor

from engines.contract import Chunk, CloneMode, EngineError, EngineUnavailable, OptionError, Request, Samples
from engines.guards import lengths
from engines.qwen_codec import Codec, CodecState
from engines.qwen_inputs import Inputs, Kind, Wording
from engines.qwen_options import OwnVoice, QwenOptions
from engines.qwen_prompts import QwenPrompt, compute, restored
from engines.qwen_talker import Talker, Utterance
from engines.torch_audio import with_torchaudio
from engines.torch_device import Precision, TorchDevice
from voices.reference import Reference

FRAME_S = 0.08
_NOTHING = np.zeros(0, np.float32)
_WARM_UP_FRAMES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What a model is made of."""

    folder: Path
    kind: Kind
    voices: Mapping[str, OwnVoice]
    languages: Mapping[str, str]
    instructs: bool
    """It takes `instruct`."""
    dtype: Precision
    threads: int | None
    frames_per_step: int
    max_open: int


@dataclass(slots=True, eq=False)
class QwenStream:
    request: Request
    utterance: Utterance | None
    """None: there is nothing to say."""
    codec: CodecState
    over: bool = False


class QwenModel:
    def __init__(self, checkpoint: Checkpoint, device: str) -> None:
        library_class = _library()
        self._device = TorchDevice(device, threads=checkpoint.threads)
        self._checkpoint = checkpoint
        self._parts: _Parts | None = None
        self._voices: dict[str, QwenPrompt] = {}
        try:
            self._parts = _Parts.of(_load(library_class, checkpoint, self._device), checkpoint)
            self._read_voices()
            self._warm_up()
        except BaseException:
            self.unload()
            raise

    @property
    def _ready(self) -> "_Parts":
        if self._parts is None:
            raise EngineError("qwen is used after its unload")
        return self._parts

    def _read_voices(self) -> None:
        if self._checkpoint.kind != "base":
            return
        for name, voice in self._checkpoint.voices.items():
            mode: CloneMode = "audio+text" if voice.text else "audio"
            try:
                samples, rate_hz = soundfile.read(voice.audio, dtype="float32", always_2d=True)
                reference = Reference(samples.mean(axis=1), rate_hz, voice.text, None)
                self._voices[name] = self.restore(self.prepare(reference, mode))
            except (soundfile.SoundFileError, EngineError) as error:
                raise EngineUnavailable(
                    f"qwen's voice {name!r} can't be read from {voice.audio}: {error}"
                ) from error

    def _warm_up(self) -> None:
        """Two at once, so that the first listeners don't wait for what is set up at first use."""
        checkpoint = self._checkpoint
        language, voice = next(iter(checkpoint.languages)), next(iter(checkpoint.voices))
        request = Request(text="Warm up, both of you.", language=language, voice=voice)
        streams = [self.start(request, None) for _ in range(min(2, checkpoint.max_open))]
        for _ in range(_WARM_UP_FRAMES):
            self.step([stream for stream in streams if not stream.over])
        for stream in streams:
            self.close(stream)

    def prepare(self, reference: Reference, mode: CloneMode) -> bytes:
        if self._checkpoint.kind != "base":
            raise EngineError("only a Base checkpoint of qwen clones voices")
        return compute(self._ready.library, reference, mode)

    def restore(self, prompt: bytes) -> QwenPrompt:
        if self._checkpoint.kind != "base":
            raise EngineError("only a Base checkpoint of qwen clones voices")
        return restored(self._ready.library, self._ready.codec, prompt)

    def start(self, request: Request, prompt: QwenPrompt | None) -> QwenStream:
        parts = self._ready
        if not parts.talker.free:
            raise EngineError(f"qwen has {self._checkpoint.max_open} open streams, as many as it takes")
        wording = self._wording(request)
        if prompt is None:
            if request.voice not in self._checkpoint.voices:
                raise EngineError(f"qwen has no voice {request.voice!r}")
            prompt = self._voices.get(request.voice)
        state = parts.codec.fresh() if prompt is None else prompt.codec.copy()
        if not parts.inputs.plain(wording.text).strip():
            return QwenStream(request, None, state)
        item = None if prompt is None else prompt.item
        inputs = parts.inputs.read(wording, request.voice, item)
        random = torch.Generator(self._device.device).manual_seed(request.seed)
        return QwenStream(request, parts.talker.open(inputs, random, _most_frames(request)), state)

    def extend(self, stream: QwenStream, text: str, last: bool) -> None:
        raise EngineError(
            f"qwen's streams don't grow ({stream.request.voice}, {len(text)} characters, {last=})"
        )

    def step(self, streams: Sequence[QwenStream]) -> Sequence[Chunk | EngineError]:
        going = [stream for stream in streams if not stream.over]
        made = self._make(going)
        return [
            self._result(stream, made) if stream in going else EngineError("the stream has ended")
            for stream in streams
        ]

    def _result(self, stream: QwenStream, made: Mapping[int, Samples]) -> Chunk:
        last = stream.over or stream.utterance is None
        if last:
            self.close(stream)
        return Chunk(made.get(id(stream), _NOTHING), last=last)

    def close(self, stream: QwenStream) -> None:
        stream.over = True
        if stream.utterance is not None and self._parts is not None:
            self._parts.talker.close(stream.utterance)
        stream.utterance = None

    def peak_bytes(self) -> int | None:
        return self._device.peak_bytes()

    def unload(self) -> None:
        self._voices.clear()
        self._parts = None
        self._device.give_back()

    def _wording(self, request: Request) -> Wording:
        checkpoint = self._checkpoint
        if request.language not in checkpoint.languages:
            raise EngineError(f"qwen doesn't speak {request.language!r} with these weights")
        options = request.options or QwenOptions()
        given = {
            each.name: getattr(options, each.name)
            for each in fields(options)
            if each.name not in ("instruct", "max_new_tokens") and getattr(options, each.name) is not None
        }
        instruct = options.instruct
        if instruct and not checkpoint.instructs:
            raise OptionError("instruct", "these weights of qwen take no instruction")
        if not instruct and checkpoint.kind == "voice_design":
            instruct = checkpoint.voices[request.voice].text
        return Wording(request.text, checkpoint.languages[request.language], instruct, given)

    def _make(self, streams: Sequence[QwenStream]) -> dict[int, Samples]:
        """Frames for each stream, decoded; marks those over that end."""
        pairs = [(stream, stream.utterance) for stream in streams if stream.utterance is not None]
        codes: dict[int, list[Tensor]] = {id(stream): [] for stream in streams}
        first = any(utterance.frames == 0 for _, utterance in pairs)
        for _ in range(1 if first else self._checkpoint.frames_per_step):
            going = [(stream, utterance) for stream, utterance in pairs if not stream.over]
            if not going:
                break
            made = self._ready.talker.advance([utterance for _, utterance in going])
            for (stream, utterance), frame in zip(going, made, strict=True):
                if frame is not None:
                    codes[id(stream)].append(frame)
                stream.over = frame is None or utterance.frames >= utterance.most_frames
        return self._decode(streams, codes)

    def _decode(self, streams: Sequence[QwenStream], codes: Mapping[int, list[Tensor]]) -> dict[int, Samples]:
        """Together where they have as many new frames."""
        samples: dict[int, Samples] = {}
        for count in {len(frames) for frames in codes.values()} - {0}:
            alike = [stream for stream in streams if len(codes[id(stream)]) == count]
            stacked = torch.stack([torch.stack(codes[id(stream)], dim=1) for stream in alike])
            decoded = self._ready.codec.decode(stacked, [stream.codec for stream in alike])
            rows = decoded.cpu().numpy()
            samples |= {id(stream): row for stream, row in zip(alike, rows, strict=True)}
        return samples


@dataclass(frozen=True, slots=True)
class _Parts:
    library: Any
    codec: Codec
    talker: Talker
    inputs: Inputs

    @classmethod
    def of(cls, library: Any, checkpoint: Checkpoint) -> "_Parts":
        return cls(
            library=library,
            codec=Codec(library.model.speech_tokenizer.model.decoder),
            talker=Talker(library.model.talker, most_open=checkpoint.max_open),
            inputs=Inputs(library, checkpoint.kind),
        )


def _most_frames(request: Request) -> int:
    """A little more than the guards let pass: an utterance without an end is for them to judge."""
    asked = None if request.options is None else request.options.max_new_tokens
    return asked or ceil(lengths(request.text, 1.0).most_s / FRAME_S) + 2


def _library() -> Any:
    """The package's class; what it prints about a program that it can do without isn't passed on."""
    try:
        with redirect_stdout(StringIO()):
            return with_torchaudio("qwen_tts").Qwen3TTSModel
    except ImportError as error:
        raise EngineUnavailable(f"qwen-tts-hf can't be imported: {error}") from error


def _load(library_class: Any, checkpoint: Checkpoint, device: TorchDevice) -> Any:
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # among the libraries themselves
            library = library_class.from_pretrained(
                str(checkpoint.folder),
                device_map=str(device.device),
                dtype=device.dtype(checkpoint.dtype),
                attn_implementation="sdpa",
                local_files_only=True,
            )
    except Exception as error:
        reason = str(error).strip().partition("\n")[0] or repr(error)
        raise EngineUnavailable(f"qwen couldn't be loaded from {checkpoint.folder}: {reason}") from error
    _require_weights(library.model, checkpoint.folder, ("talker.", "speaker_encoder."))
    _require_weights(
        library.model.speech_tokenizer.model, checkpoint.folder / "speech_tokenizer", ("decoder.",)
    )
    library.model.eval()
    return library


def _require_weights(model: Any, folder: Path, parts: tuple[str, ...]) -> None:
    """What a file lacks would be random numbers, and nobody would be told."""
    from safetensors import safe_open

    there: set[str] = set()
    for file in folder.glob("*.safetensors"):
        with safe_open(file, "pt") as opened:
            there.update(opened.keys())
    missing = [name for name, _ in model.named_parameters() if name.startswith(parts) and name not in there]
    if missing:
        raise EngineUnavailable(f"{folder} lacks {len(missing)} weights, {missing[0]} among them")
