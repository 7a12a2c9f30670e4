"""nano-vllm-voxcpm's host program with `tone` behind it, in the place of the library and its card."""

import asyncio
import io
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

from engines.contract import Info, Request, Samples, Source
from engines.nano_vllm_model import NanoModel
from engines.nano_vllm_settings import NanoSettings
from engines.nano_vllm_voxcpm import NanoEngine
from engines.tone import ToneEngine
from voices.reference import Reference

STEP_MS = 160
_TONE = Source(settings={"step_ms": STEP_MS, "sample_rate_hz": 48000})


class WorkerDiedError(RuntimeError):
    """As the library calls it."""


class TonePool:
    """Told by the text to fail: as the library does for a text that is too long, and when its process is gone."""

    def __init__(self) -> None:
        self._tone = ToneEngine().load(_TONE, "cpu")
        self.running = 0
        self.wanted = 1
        """It makes nothing before so many are asked for at once."""
        self._all = asyncio.Event()
        self.stopped = False

    async def wait_for_ready(self) -> None:
        await asyncio.sleep(0)

    async def stop(self) -> None:
        await asyncio.sleep(0)
        self.stopped = True

    async def encode_latents(self, wav: bytes, wav_format: str) -> bytes:
        import soundfile

        assert wav_format == "wav"
        samples, rate_hz = soundfile.read(io.BytesIO(wav), dtype="float32")
        await asyncio.sleep(0)
        return self._tone.prepare(Reference(samples, rate_hz, None, None), "audio")

    async def generate(
        self,
        target_text: str,
        *,
        max_generate_length: int,
        temperature: float,
        cfg_value: float,
        seed: int,
        ref_audio_latents: bytes | None = None,
        prompt_latents: bytes | None = None,
        prompt_text: str = "",
    ) -> AsyncGenerator[Samples, None]:
        assert (prompt_latents is None) == (not prompt_text)
        if "too long" in target_text:
            raise RuntimeError("Traceback (most recent call last):\n  ...\nValueError: the text is too long")
        # Of a voice that it goes on from, how it was said; else who said it.
        latents = prompt_latents or ref_audio_latents
        prompt = None if latents is None else self._tone.restore(latents)
        request = Request(text=target_text, language="en", voice="a4", seed=seed)
        stream = self._tone.start(request, prompt)
        self.running += 1
        try:
            if self.running >= self.wanted:
                self._all.set()
            await self._all.wait()
            for _ in range(max_generate_length):
                (chunk,) = self._tone.step([stream])
                assert not isinstance(chunk, Exception)
                await asyncio.sleep(0)
                yield chunk.samples
                if chunk.last:
                    return
                if "dies" in target_text:
                    raise WorkerDiedError("exit code -9")
        finally:
            self.running -= 1
            self._tone.close(stream)


class ToneNano(NanoEngine):
    @property
    def info(self) -> Info:
        return replace(super().info, version="tone")

    def load(self, source: Source, device: str) -> NanoModel:
        return super().load(source, device) if device == "nowhere" else self.load_tone(source)[0]

    def load_tone(self, source: Source) -> tuple[NanoModel, list[TonePool]]:
        """And the pool, made on its own loop."""
        made: list[TonePool] = []

        def make() -> Any:
            made.append(TonePool())
            return made[0]

        return NanoModel(make, NanoSettings.from_source(source)), made


engine = ToneNano()
