"""VoxCPM 2 for many listeners at once, hosted: nano-vllm-voxcpm in an environment of its own, on an NVIDIA card.

This module and those beside it run there, too: Python 3.10 and numpy 1.26.
"""

from typing import TYPE_CHECKING

from engines.contract import BuiltinVoice, EngineUnavailable, Facts, Info, Source
from engines.digest import sound_digest
from engines.installed import installed_version
from engines.nano_vllm_settings import NanoOptions, NanoSettings
from engines.voxcpm import (
    LANGUAGES,
    MAX_CHARS,
    MAX_SENTENCES,
    SUFFIXES,
    checkpoint_folder,
    output_rate_hz,
    read_config,
    step_s,
)
from engines.voxcpm_settings import DESIGN

if TYPE_CHECKING:
    from engines.nano_vllm_model import NanoModel

NAME = "nano-vllm-voxcpm"


class NanoEngine:
    """`Source.path`: the folder of a checkpoint of VoxCPM 2; the rest is in NanoSettings."""

    @property
    def info(self) -> Info:
        return Info(
            name=NAME,
            version=installed_version(NAME),
            extra=None,
            devices=frozenset({"cuda"}),
            languages=LANGUAGES,
            voices=(),
            clones=frozenset({"audio", "audio+text"}),
            options=NanoOptions,
            hosted=True,
        )

    def identify(self, source: Source) -> Facts:
        settings = NanoSettings.from_source(source)
        folder = checkpoint_folder(source, NAME)
        config = read_config(folder)
        shaping = [self.info.version, settings.with_text, settings.inference_timesteps]
        names = [*(voice.name for voice in settings.recordings), DESIGN]
        return Facts(
            checkpoint=sound_digest(folder, suffixes=SUFFIXES, shaping=shaping, voices=settings.recordings),
            sample_rate_hz=output_rate_hz(config),
            max_open=settings.max_open,
            max_batch=settings.max_open,
            step_s=step_s(config),
            max_chars=MAX_CHARS,
            max_sentences=MAX_SENTENCES,
            sampling=True,
            voices=tuple(BuiltinVoice(name, name, "en") for name in names),
        )

    def load(self, source: Source, device: str) -> "NanoModel":
        if device != "cuda":
            raise EngineUnavailable(f"{NAME} runs on an NVIDIA card alone, not on {device!r}")
        settings = NanoSettings.from_source(source)
        folder = checkpoint_folder(source, NAME)
        read_config(folder)
        from engines.nano_vllm_model import NanoModel, make_pool

        return NanoModel(make_pool(folder, settings), settings)


engine = NanoEngine()
