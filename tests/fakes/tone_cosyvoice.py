"""CosyVoice's host program with `tone` behind it, in the checkout's place: with the library's habits, good and bad.

Each utterance has a thread that makes tokens until it is done or its list is gone; steps grow and stay grown; what
isn't spoken to its end is never forgotten.
"""

import json
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np

from engines.contract import Request, Source
from engines.cosyvoice import CosyvoiceEngine, checkpoint, sample_rate_hz
from engines.cosyvoice_model import CosyvoiceModel
from engines.cosyvoice_settings import CosyvoiceSettings
from engines.tone import ToneEngine
from voices.reference import Reference

RATE_HZ = 24000
TOKEN_SAMPLES = 960
HOP_TOKENS = 5


class ToneNetwork:
    def __init__(self) -> None:
        self.token_hop_len = HOP_TOKENS
        self.tts_speech_token_dict: dict[str, list[int]] = {}
        self.llm_end_dict: dict[str, bool] = {}
        self.hift_cache_dict: dict[str, Any] = {}
        self.slow = threading.Event()
        """Set: its threads go on for ever."""

    def tts(self, samples: Any) -> Iterator[dict[str, Any]]:
        import torch

        name = str(uuid.uuid1())
        self.tts_speech_token_dict[name], self.llm_end_dict[name] = [], False
        self.hift_cache_dict[name] = None

        def llm_job() -> None:
            for number in range(-(-len(samples) // TOKEN_SAMPLES)):
                self.tts_speech_token_dict[name].append(number)
            while self.slow.is_set():
                self.tts_speech_token_dict[name].append(0)
            self.llm_end_dict[name] = True

        talker = threading.Thread(target=llm_job, daemon=True)
        talker.start()
        at = 0
        while at < len(samples):
            upto = at + self.token_hop_len * TOKEN_SAMPLES
            self.token_hop_len = min(4 * HOP_TOKENS, 2 * self.token_hop_len)
            yield {"tts_speech": torch.from_numpy(samples[None, at:upto])}
            at = upto
        talker.join()
        for table in (self.tts_speech_token_dict, self.llm_end_dict, self.hift_cache_dict):
            table.pop(name)


class ToneFrontEnd:
    device = "cpu"

    def __init__(self) -> None:
        self.spk2info: dict[str, dict[str, Any]] = {"anna": {}}

    def text_normalize(self, text: str, split: bool, text_frontend: bool) -> str:
        assert not split
        return text

    def _extract_text_token(self, text: str) -> tuple[Any, Any]:
        import torch

        tokens = torch.tensor([[ord(one) for one in text]], dtype=torch.int32)
        return tokens, torch.tensor([tokens.shape[1]], dtype=torch.int32)

    def frontend_zero_shot(
        self, text: str, prompt_text: str, path: str, rate_hz: int, speaker: str
    ) -> dict[str, Any]:
        import soundfile
        import torch

        assert rate_hz == RATE_HZ
        samples, found_hz = soundfile.read(path, dtype="float32")
        heard = json.loads(
            ToneEngine().load(Source(), "cpu").prepare(Reference(samples, found_hz, None, None), "audio")
        )
        tokens, length = self._extract_text_token(prompt_text)
        text_tokens, text_length = self._extract_text_token(text)
        return {
            "prompt_text": tokens,
            "prompt_text_len": length,
            "embedding": torch.tensor([heard["frequency_hz"]]),
            "text": text_tokens,
            "text_len": text_length,
        }


class ToneLibrary:
    """As AutoModel gives it; `said` is what it was asked for, call by call."""

    sample_rate = RATE_HZ

    def __init__(self) -> None:
        self.model = ToneNetwork()
        self.frontend = ToneFrontEnd()
        self.said: list[tuple[str, ...]] = []

    def list_available_spks(self) -> list[str]:
        return list(self.frontend.spk2info)

    def inference_sft(self, text: str, speaker: str, *, stream: bool, text_frontend: bool) -> Iterator[Any]:
        self.said.append(("sft", text, speaker))
        return self._speak(text, None, stream)

    def inference_instruct(
        self, text: str, speaker: str, instruct: str, *, stream: bool, text_frontend: bool
    ) -> Iterator[Any]:
        self.said.append(("instruct", text, speaker, instruct))
        return self._speak(text, None, stream)

    def inference_zero_shot(
        self,
        text: str,
        prompt_text: str,
        path: str,
        *,
        zero_shot_spk_id: str,
        stream: bool,
        text_frontend: bool,
    ) -> Iterator[Any]:
        return self._cloned("zero_shot", text, zero_shot_spk_id, stream)

    def inference_cross_lingual(
        self, text: str, path: str, *, zero_shot_spk_id: str, stream: bool, text_frontend: bool
    ) -> Iterator[Any]:
        return self._cloned("cross_lingual", text, zero_shot_spk_id, stream)

    def inference_instruct2(
        self, text: str, instruct: str, path: str, *, zero_shot_spk_id: str, stream: bool, text_frontend: bool
    ) -> Iterator[Any]:
        return self._cloned("instruct2", text, zero_shot_spk_id, stream)

    def _cloned(self, way: str, text: str, speaker: str, stream: bool) -> Iterator[Any]:
        kept = self.frontend.spk2info[speaker]
        self.said.append((way, text, "".join(map(chr, kept["prompt_text"].flatten().tolist()))))
        return self._speak(text, float(kept["embedding"]), stream)

    def _speak(self, text: str, frequency_hz: float | None, stream: bool) -> Iterator[Any]:
        """A generator, as the library's: it begins at its first step."""
        assert stream
        tone = ToneEngine().load(Source(), "cpu")
        prompt = (
            None
            if frequency_hz is None
            else tone.restore(json.dumps({"frequency_hz": frequency_hz}).encode())
        )
        plain = text.rpartition("|>")[2]
        (chunk,) = tone.step([tone.start(Request(text=plain, language="en", voice="a4"), prompt)])
        assert not isinstance(chunk, Exception)
        yield from self.model.tts(np.ascontiguousarray(chunk.samples))


class ToneCosyvoice(CosyvoiceEngine):
    def load(self, source: Source, device: str) -> CosyvoiceModel:
        return super().load(source, device) if device == "nowhere" else self.load_tone(source)

    def load_tone(self, source: Source) -> CosyvoiceModel:
        folder, generation = checkpoint(source)
        settings = CosyvoiceSettings.from_source(source)
        return CosyvoiceModel(ToneLibrary(), generation, settings, sample_rate_hz(folder, generation))


engine = ToneCosyvoice()
