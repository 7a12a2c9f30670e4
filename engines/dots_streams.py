# ruff: noqa: SLF001 - the parts of the library's loops aren't public, so its version is pinned to 0.3
"""How dots speaks a text that is there, and one that is still being written: a piece of sound at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from engines.contract import EngineError, Samples
from engines.dots_library import MOST_PATCHES
from engines.dots_prompt import DotsPrompt

if TYPE_CHECKING:
    from dots_tts.runtime_double_streaming import DotsTtsRuntimeDoubleStreaming, DoubleStreamingSession


@dataclass(frozen=True, slots=True)
class Manner:
    """How to speak."""

    prompt: DotsPrompt | None
    language: str
    """The library's own word."""
    num_steps: int
    guidance_scale: float
    speaker_scale: float


class Speech(Protocol):
    @property
    def wants_text(self) -> bool:
        """Nothing more can be made of the text so far."""

    def next(self) -> Samples | None:
        """None: it is over. Raises EngineError."""

    def close(self) -> None: ...


class WholeSpeech:
    """Of a text that is there."""

    wants_text = False

    def __init__(self, runtime: "DotsTtsRuntimeDoubleStreaming", text: str, manner: Manner) -> None:
        self._patch_samples = int(runtime.model.config.patch_size * runtime.model.hop_size)
        self._most_samples = self._patch_samples * (
            MOST_PATCHES - self._prompt_patches(runtime, manner.prompt)
        )
        self._made_samples = 0
        self._pieces = self._begin(runtime, text, manner)

    def next(self) -> Samples | None:
        piece = next(self._pieces, None)
        if piece is None:
            if self._made_samples >= self._most_samples:
                raise EngineError("dots didn't stop speaking")
            return None
        samples = _samples(piece)
        self._made_samples += samples.size
        return samples

    def close(self) -> None:
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()

    def _prompt_patches(self, runtime: "DotsTtsRuntimeDoubleStreaming", prompt: DotsPrompt | None) -> int:
        return 0 if prompt is None else prompt.frames // int(runtime.model.config.patch_size)

    def _begin(
        self, runtime: "DotsTtsRuntimeDoubleStreaming", text: str, manner: Manner
    ) -> Iterator[torch.Tensor]:
        from dots_tts.data.pipelines.tokenizing import build_generation_schedule
        from dots_tts.data.pipelines.tts_pipeline import DEFAULT_TRAIN_TEMPLATE
        from dots_tts.utils.text import attach_language_tag

        transcript = "" if manner.prompt is None else manner.prompt.transcript
        said = f"{transcript}\n{text}" if transcript else text
        schedule = build_generation_schedule(
            text=attach_language_tag(said, manner.language),
            tokenizer=runtime.model.tokenizer,
            template=DEFAULT_TRAIN_TEMPLATE,
            max_audio_tokens=MOST_PATCHES,
        )["schedule_ids"]
        if len(schedule) > runtime.max_sequence_length:
            raise EngineError("the text and the recording's transcript are too long together")
        pieces: Iterator[torch.Tensor] = runtime.model.generate_audio_stream(
            {
                "generation_schedule": torch.tensor([schedule], dtype=torch.long, device=runtime.device),
                "prompt_audio": manner.prompt,
                "prompt_text": transcript,
            },
            precision=runtime.precision,
            ode_method="euler",
            num_steps=manner.num_steps,
            guidance_scale=manner.guidance_scale,
            speaker_scale=manner.speaker_scale,
            vocoder_merge_steps=runtime.vocoder_merge_steps,
        )
        return pieces


class GrowingSpeech:
    """The text may still be coming. A word is handed on when the white space after it shows that it is whole."""

    def __init__(
        self, runtime: "DotsTtsRuntimeDoubleStreaming", text: str, manner: Manner, *, last: bool
    ) -> None:
        self._tokenizer = runtime.model.tokenizer
        self._session = _session(runtime, manner)
        self._text = ""
        self._complete = False
        self._tokens: list[int] = []
        """Of all whole words."""
        self._pushed = 0
        self._rest: Iterator[torch.Tensor] | None = None
        self.extend(text, last=last)

    def extend(self, text: str, *, last: bool) -> None:
        self._text += text
        self._complete = last
        whole = self._text.rstrip() if last else self._text.rpartition(" ")[0].rstrip()
        tokens: list[int] = self._tokenizer.encode(whole, add_special_tokens=False)
        if tokens[: self._pushed] != self._tokens[: self._pushed]:
            raise EngineError("words that have been spoken are other words now")
        self._tokens = tokens

    @property
    def wants_text(self) -> bool:
        return not self._complete and self._pushed == len(self._tokens)

    def next(self) -> Samples | None:
        try:
            while self._pushed < len(self._tokens):
                self._pushed += 1
                piece = self._session.push_text_token(self._tokens[self._pushed - 1])
                if piece is not None:
                    return _samples(piece)
            if not self._complete:
                return np.zeros(0, np.float32)
            if self._rest is None:
                self._rest = self._session.finish_text()
            piece = next(self._rest, None)
        except RuntimeError as error:
            if "max_generate_length" in str(error):
                raise EngineError("dots didn't stop speaking") from error
            raise
        return None if piece is None else _samples(piece)

    def close(self) -> None:
        self._rest = None


def _session(runtime: "DotsTtsRuntimeDoubleStreaming", manner: Manner) -> "DoubleStreamingSession":
    prompt = manner.prompt
    goes_on = prompt is not None and prompt.latents is not None
    session = runtime.start_double_streaming(
        prompt_audio_path=prompt if goes_on else None,
        prompt_text=prompt.transcript if prompt is not None and goes_on else None,
        ode_method="euler",
        num_steps=manner.num_steps,
        guidance_scale=manner.guidance_scale,
        speaker_scale=manner.speaker_scale,
    )
    if prompt is not None and not goes_on:
        # Given a file's name it would keep what it computes for ever.
        with (
            torch.no_grad(),
            torch.autocast(session.device.type, dtype=session._dtype, enabled=session._use_amp),
        ):
            conditioning = runtime.model._prepare_prompt_conditioning(
                prompt, use_prompt_prefill=False, speaker_scale=manner.speaker_scale
            )
        session._g_cond = conditioning.g_cond.detach()
    return session


class Autocast:
    """Of one stream. The library's loops switch it on at their start and off at their end, for all of the thread:
    inside a `with` it is the stream's, afterwards as before.
    """

    def __init__(self, device: torch.device) -> None:
        self._kind = device.type
        self._ours = self._theirs = self._get()

    def __enter__(self) -> None:
        self._theirs = self._get()
        self._set(*self._ours)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ours = self._get()
        self._set(*self._theirs)

    def _get(self) -> tuple[bool, torch.dtype]:
        return torch.is_autocast_enabled(self._kind), torch.get_autocast_dtype(self._kind)

    def _set(self, enabled: bool, dtype: torch.dtype) -> None:
        torch.set_autocast_enabled(self._kind, enabled)
        torch.set_autocast_dtype(self._kind, dtype)


def _samples(piece: torch.Tensor) -> Samples:
    """float32 [n] of a piece [1, 1, n]."""
    samples: Samples = piece.detach().reshape(-1).float().cpu().numpy()
    return np.clip(samples, -1, 1)
