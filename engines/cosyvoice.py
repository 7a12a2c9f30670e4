"""CosyVoice 1, 2 and 3, hosted: the official checkout in an environment of its own, one segment at a time.

This module and those beside it run there, too: Python 3.10 and numpy 1.26.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from engines.contract import BuiltinVoice, EngineUnavailable, Facts, Info, OptionError, Source
from engines.cosyvoice_settings import CosyvoiceOptions, CosyvoiceSettings, Generation
from engines.digest import folder_digest, sound_digest

if TYPE_CHECKING:
    from engines.cosyvoice_model import CosyvoiceModel

VERSION = "1"
"""Of this host program: the checkout has none, its content is part of the checkpoint."""
_FILES = {1: "cosyvoice.yaml", 2: "cosyvoice2.yaml", 3: "cosyvoice3.yaml"}
_LANGUAGES = {"zh": "zh", "en": "en", "ja": "ja", "yue": "yue", "ko": "ko"}
_LANGUAGES_OF_3 = {
    **{tag: tag for tag in ("zh", "en", "ja", "ko", "de", "es", "fr", "it", "ru", "yue")},
}
_STEP_S = {1: 2.0, 2: 1.0, 3: 1.0}
"""Of the first step; later ones are longer."""
_MAX_CHARS = 200
_FOOTPRINT_BYTES = 3_000_000_000
_SUFFIXES = (".yaml", ".pt", ".onnx", ".safetensors", ".json")


class CosyvoiceEngine:
    """`Source.path`: the folder of a checkpoint; the checkout and the rest are in CosyvoiceSettings."""

    @property
    def info(self) -> Info:
        return Info(
            name="cosyvoice",
            version=VERSION,
            extra=None,
            devices=frozenset({"cuda"}),
            languages={},
            voices=(),
            clones=frozenset({"audio", "audio+text"}),
            options=CosyvoiceOptions,
            hosted=True,
        )

    def identify(self, source: Source) -> Facts:
        settings = CosyvoiceSettings.from_source(source)
        folder, generation = checkpoint(source)
        names = [*settings.speakers, *(voice.name for voice in settings.recordings)]
        if not names:
            raise OptionError(
                "voices", 'cosyvoice needs a voice: voices = { anna = "/path/anna.wav" }, or speakers'
            )
        languages = _LANGUAGES_OF_3 if generation == 3 else _LANGUAGES
        first = next(iter(languages))
        return Facts(
            checkpoint=_digest(folder, settings),
            sample_rate_hz=sample_rate_hz(folder, generation),
            max_open=1,
            step_s=_STEP_S[generation],
            max_chars=_MAX_CHARS,
            max_sentences=settings.sentences_per_chunk,
            sampling=True,
            footprint_bytes={"": _FOOTPRINT_BYTES},
            languages=languages,
            voices=tuple(BuiltinVoice(name, name, first) for name in names),
        )

    def load(self, source: Source, device: str) -> "CosyvoiceModel":
        if device not in {"cpu", "cuda"}:
            raise EngineUnavailable(f"cosyvoice runs on CUDA or on the CPU, not on {device!r}")
        settings = CosyvoiceSettings.from_source(source)
        folder, generation = checkpoint(source)
        from engines.cosyvoice_library import load_library
        from engines.cosyvoice_model import CosyvoiceModel

        library = load_library(folder, generation, settings, device)
        return CosyvoiceModel(library, generation, settings, sample_rate_hz(folder, generation))


engine = CosyvoiceEngine()


def checkpoint(source: Source) -> "tuple[Path, Generation]":
    """Raises EngineUnavailable."""
    if source.path is None:
        raise EngineUnavailable(
            'cosyvoice needs a checkpoint: engines.cosyvoice.path = "/srv/CosyVoice2-0.5B"'
        )
    folder = Path(source.path).expanduser()
    generations: tuple[Generation, ...] = (1, 2, 3)
    for generation in generations:
        if (folder / _FILES[generation]).is_file():
            return folder, generation
    raise EngineUnavailable(f"cosyvoice's checkpoint {folder} has none of {', '.join(_FILES.values())}")


def sample_rate_hz(folder: Path, generation: "Generation") -> int:
    """As the library will say once it is loaded. Raises EngineUnavailable."""
    file = folder / _FILES[generation]
    found = re.search(r"^sample_rate:\s*(\d+)", file.read_text("utf-8"), re.MULTILINE)
    if found is None:
        raise EngineUnavailable(f"{file} names no sample_rate")
    return int(found[1])


def _digest(folder: Path, settings: CosyvoiceSettings) -> str:
    shaping = [
        VERSION,
        folder_digest(settings.folder / "cosyvoice", suffixes=(".py",)),
        settings.fp16,
        settings.text_frontend,
        settings.sentences_per_chunk,
        settings.silence_ms,
    ]
    return sound_digest(folder, suffixes=_SUFFIXES, shaping=shaping, voices=settings.recordings)
