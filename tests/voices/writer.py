"""Uploads and removes voices, or keeps prompts, until it is killed: `python -m tests.voices.writer FOLDER WHAT`."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.voices.recordings import RATE_HZ, encoded, tone
from voices.clip import Clip
from voices.library import Library
from voices.making import Made, Upload, make_voice
from voices.objects import Objects
from voices.prompts import StoredPrompts
from voices.reading import Bounds
from voices.reference import Clone
from voices.voice import Traits

MADE_BY = {"engine": "tone", "version": "1", "checkpoint": "a"}
PROMPT_BYTES = 4_000_000


def sound(number: int) -> bytes:
    """A file. Noise doesn't compress, so that most of the time goes into writing."""
    noise = np.random.default_rng(number).uniform(-0.1, 0.1, 2 * RATE_HZ)
    return encoded(tone(length_s=2, frequency_hz=300 + number) + noise)


def add(library: Library, number: int) -> Made:
    upload = Upload(audio=io.BytesIO(sound(number)), name=str(number), traits=Traits(transcript="one two"))
    return make_voice(library, upload, Bounds(), now_s=0.0)


def prompt(number: int) -> bytes:
    return np.random.default_rng(number).bytes(PROMPT_BYTES + number)


class Encoded(Clip):
    """Its file is made once."""

    __slots__ = ("file",)

    file: bytes

    def encode(self, kind: str) -> bytes:
        if not hasattr(self, "file"):
            object.__setattr__(self, "file", super().encode(kind))
        return self.file


def uploads(library: Library) -> Callable[[], None]:
    made = [add(library, number).voice for number in range(3)]
    found = [(voice, library.clip(voice.voice_id)) for voice in made]
    clips = [(voice, Encoded(clip.pcm, clip.sample_rate_hz)) for voice, clip in found]

    def work() -> None:
        for voice, clip in clips:
            library.remove(voice.voice_id)
            library.add(voice, clip, None)

    return work


def whole_uploads(library: Library) -> Callable[[], None]:
    def work() -> None:
        for number in range(3):
            library.remove(add(library, number).voice.voice_id)
            add(library, number)

    return work


def prompts(library: Library) -> Callable[[], None]:
    clone = Clone(add(library, 0).voice.voice_id, "audio")
    texts = [prompt(number) for number in range(2)]
    kept = StoredPrompts(library, **MADE_BY)

    def work() -> None:
        for text in texts:
            kept.keep(clone, text)

    return work


WORK = {"uploads": uploads, "whole uploads": whole_uploads, "prompts": prompts}


def main(folder: Path, what: str) -> None:
    work = WORK[what](Library(Objects(folder)))
    print("ready", flush=True)
    while True:
        work()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
