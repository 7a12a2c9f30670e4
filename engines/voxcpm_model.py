"""VoxCPM loaded: the library's own generator, a step at a time, and never two of them."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engines.contract import Chunk, CloneMode, EngineError, EngineUnavailable, OptionError, Request
from engines.torch_device import TorchDevice
from engines.torch_random import RandomState
from engines.voxcpm_library import decoder_after, going_on_from, import_voxcpm, load, quietly
from engines.voxcpm_prompt import Denoise, VoxcpmPrompt, build, pack, unpack
from engines.voxcpm_settings import DESIGN, VoxcpmOptions, VoxcpmSettings
from engines.voxcpm_text import instructed, spoken
from voices.reference import Reference

if TYPE_CHECKING:
    from voxcpm.model import VoxCPM2Model

Steps = Generator[tuple[Any, Any, Any], None, None]
"""The library's: samples [1, n] and what isn't needed here."""
_WARM_STEPS = 2


@dataclass(slots=True, eq=False)
class VoxcpmStream:
    request: Request
    prompt: VoxcpmPrompt | None
    random: RandomState
    steps: Steps | None = None
    over: bool = False


class VoxcpmModel:
    """One stream at a time: the network's memory of what it has said, and the decoder's, are the model's own."""

    def __init__(self, folder: Path, settings: VoxcpmSettings, device: str) -> None:
        import_voxcpm()
        self._place = TorchDevice(device, threads=settings.threads)
        self._settings = settings
        self._open: VoxcpmStream | None = None
        self._model: VoxCPM2Model | None = None
        self._denoise: Denoise | None = None
        self._voices: dict[str, VoxcpmPrompt | None] = {DESIGN: None}
        try:
            with quietly():
                self._load(folder, device)
        except EngineError as error:
            self.unload()
            raise EngineUnavailable(f"voxcpm couldn't be loaded: {error}") from error
        except BaseException:
            self.unload()
            raise

    def _load(self, folder: Path, device: str) -> None:
        settings = self._settings
        if settings.denoiser is not None:
            self._denoise = _denoiser(settings.denoiser)
        dtype = self._dtype(settings, device)
        self._model = load(folder, device=device, dtype=dtype, optimize=settings.optimize)
        for voice in settings.recordings:
            self._voices[voice.name] = self._ready(self._build(voice.read(), voice.mode))
        self._warm_up()

    def _dtype(self, settings: VoxcpmSettings, device: str) -> str:
        if settings.optimize and device != "cuda":
            raise EngineUnavailable(f"voxcpm can be optimised on CUDA alone, not on {device}")
        if device != "mps":
            return str(self._place.dtype(settings.dtype)).removeprefix("torch.")
        if settings.dtype in {"bfloat16", "float16"}:
            raise EngineUnavailable(f"voxcpm speaks noise in {settings.dtype} on an Apple GPU; set float32")
        return "float32"

    @property
    def _library(self) -> "VoxCPM2Model":
        if self._model is None:
            raise EngineError("voxcpm is used after its unload")
        return self._model

    def _warm_up(self) -> None:
        """The first recording imports much; the first step allocates, and compiles if that is asked for."""
        noise = np.random.default_rng(0).standard_normal(16000).astype(np.float32) * 0.01
        prompt = self._build(Reference(noise, 16000, None, None), "audio")
        stream = self.start(Request(text="Warm up.", language="en", voice=DESIGN), prompt)
        for _ in range(_WARM_STEPS):
            if not stream.over:
                self.step([stream])
        self.close(stream)

    def _build(self, recording: Reference, mode: CloneMode) -> VoxcpmPrompt:
        return build(
            self._library, recording, mode, with_text=self._settings.with_text, denoise=self._denoise
        )

    def prepare(self, reference: Reference, mode: CloneMode) -> bytes:
        return pack(self._build(reference, mode))

    def restore(self, prompt: bytes) -> VoxcpmPrompt:
        patch = (self._library.patch_size, self._library.audio_vae.latent_dim)
        return self._ready(unpack(prompt, patch=patch))

    def _ready(self, prompt: VoxcpmPrompt) -> VoxcpmPrompt:
        if not prompt.goes_on:
            return prompt
        return replace(prompt, decoder=decoder_after(self._library, prompt.latents))

    def start(self, request: Request, prompt: VoxcpmPrompt | None) -> VoxcpmStream:
        if self._open is not None and not self._open.over:
            raise EngineError("voxcpm speaks one segment at a time: the one before hasn't been closed")
        if prompt is None:
            if request.voice not in self._voices:
                raise EngineError(f"voxcpm has no voice {request.voice!r}")
            prompt = self._voices[request.voice]
        self._check(_options(request), prompt)
        stream = VoxcpmStream(request, prompt, RandomState(request.seed, self._place.device))
        self._open = stream
        return stream

    def _check(self, options: VoxcpmOptions, prompt: VoxcpmPrompt | None) -> None:
        """Raises OptionError for what can be said of no request to this model, or not with this voice."""
        if options.denoise is not None and options.denoise != (self._denoise is not None):
            loaded = "without a denoiser" if options.denoise else "with a denoiser, and its prompts are clean"
            raise OptionError("denoise", f"voxcpm was loaded {loaded}")
        if options.instruct.strip() and prompt is not None and prompt.goes_on:
            raise OptionError("instruct", "a voice that goes on from a transcript takes no instruction")

    def extend(self, stream: VoxcpmStream, text: str, last: bool) -> None:
        raise EngineError(
            f"voxcpm's streams don't grow ({stream.request.voice}, {len(text)} characters, {last=})"
        )

    def step(self, streams: Sequence[VoxcpmStream]) -> Sequence[Chunk | EngineError]:
        return [self._advance(stream) for stream in streams]

    def close(self, stream: VoxcpmStream) -> None:
        """The decoder is mended by the generator's end."""
        stream.over = True
        if stream.steps is not None:
            steps, stream.steps = stream.steps, None
            steps.close()
        stream.prompt = None
        if self._open is stream:
            self._open = None

    def peak_bytes(self) -> int | None:
        """Of the device's memory; None on the CPU."""
        return self._place.peak_bytes()

    def unload(self) -> None:
        if self._open is not None:
            self.close(self._open)
        self._voices.clear()
        self._denoise = None
        if self._model is not None and self._settings.optimize:
            import torch

            torch.compiler.reset()
        self._model = None
        self._place.give_back()

    def _advance(self, stream: VoxcpmStream) -> Chunk | EngineError:
        if stream.over:
            return EngineError("the stream has ended")
        made = None
        try:
            if stream.steps is None:
                stream.steps = self._steps(stream)
            with stream.random:
                made = next(stream.steps, None)
        except EngineError as error:
            return error
        finally:
            if made is None:
                self.close(stream)
        if made is None:
            return Chunk(np.zeros(0, np.float32), last=True)
        return Chunk(made[0].reshape(-1).float().numpy().copy())

    def _steps(self, stream: VoxcpmStream) -> Steps:
        text = spoken(stream.request.text)
        if not text:
            return
        options = _options(stream.request)
        text = instructed(text, options.instruct)
        self._check_room(text, stream.prompt, options)
        prompt = stream.prompt
        with going_on_from(self._library, None if prompt is None else prompt.decoder):
            yield from self._library.generate_with_prompt_cache_streaming(
                target_text=text,
                prompt_cache=None if prompt is None else prompt.cache,
                min_len=options.min_len,
                max_len=options.max_len,
                inference_timesteps=options.inference_timesteps,
                cfg_value=options.cfg_value,
                retry_badcase_ratio_threshold=self._settings.steps_per_token,
            )

    def _check_room(self, text: str, prompt: VoxcpmPrompt | None, options: VoxcpmOptions) -> None:
        """What the network remembers has a fixed size."""
        tokens = len(self._library.text_tokenizer(text))
        steps = min(int(tokens * self._settings.steps_per_token + 10), options.max_len)
        before = 0 if prompt is None else prompt.steps + len(self._library.text_tokenizer(prompt.text))
        most = self._library.config.max_length
        if before + tokens + 1 + steps > most:
            raise EngineError(
                f"the text is too long for voxcpm: {tokens} tokens and up to {steps} steps after {before} of the "
                f"voice, {most} is the most"
            )


def _options(request: Request) -> VoxcpmOptions:
    return VoxcpmOptions() if request.options is None else request.options


def _denoiser(model: str) -> Denoise:
    """Raises EngineUnavailable."""
    try:
        from voxcpm.zipenhancer import ZipEnhancer

        enhancer = ZipEnhancer(model)
    except Exception as error:
        raise EngineUnavailable(f"voxcpm's denoiser {model} can't be loaded: {error}") from error

    def denoise(path: Path) -> Path:
        cleaned = path.with_name(f"clean-{path.name}")
        enhancer.enhance(str(path), output_path=str(cleaned))
        return cleaned

    return denoise
