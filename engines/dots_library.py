"""dots-tts imported and a checkpoint of it loaded, without what the library does beside that.

It would choose the device by itself, run what is pickled in a checkpoint, set the process's number of threads, write
every text into the log, and bring 700 MB of a normaliser that isn't used here.
"""

import importlib
import pickle
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

from engines.contract import EngineUnavailable
from engines.dots_prompt import DotsPrompt
from engines.torch_audio import with_torchaudio

if TYPE_CHECKING:
    from dots_tts.runtime_double_streaming import DotsTtsRuntimeDoubleStreaming

_NORMALISERS = ("tn.chinese.normalizer", "tn.english.normalizer")
MOST_PATCHES = 512
"""Of one stream, a prompt's own included: the most that the library compiles for."""


def load_runtime(
    folder: Path, *, device: torch.device, dtype: torch.dtype, optimize: bool, merged_patches: int
) -> "DotsTtsRuntimeDoubleStreaming":
    """Raises EngineUnavailable."""
    import_library()
    from dots_tts.models.dots_tts.model import DotsTtsModel, _PromptFeatureCacheEntry
    from dots_tts.runtime_double_streaming import DotsTtsRuntimeDoubleStreaming

    class Checkpoint(DotsTtsModel):  # type: ignore[misc]
        """What it would compute from a recording, and keep of 256 of them, comes with the prompt."""

        _given: DotsPrompt | None = None

        def _prepare_prompt_audio_for_conditioning(self, prompt_audio: Any) -> tuple[torch.Tensor, str]:
            if not isinstance(prompt_audio, DotsPrompt):
                prepared: tuple[torch.Tensor, str] = super()._prepare_prompt_audio_for_conditioning(
                    prompt_audio
                )
                return prepared
            self._given = prompt_audio
            return torch.zeros(1, 1), "given"

        def _get_prompt_feature_cache_entry(self, cache_key: str) -> _PromptFeatureCacheEntry | None:
            del cache_key
            given, self._given = self._given, None
            return None if given is None else _PromptFeatureCacheEntry(given.speaker, given.latents)

        def _store_prompt_feature_cache_entry(self, cache_key: str, entry: object) -> None:
            pass

        def _allocate_generate_state(self, **wanted: Any) -> Any:
            if not self._optimize_enabled:
                # The next stream gets buffers of its own; those of the open ones stay theirs.
                self._static_generate_workspaces.clear()
            return super()._allocate_generate_state(**wanted)

    class Runtime(DotsTtsRuntimeDoubleStreaming):  # type: ignore[misc]
        def __init__(self, model: Checkpoint) -> None:
            self.model = model
            self.pretrained_path = folder
            self.precision = str(dtype).removeprefix("torch.")
            self.device = device
            self.optimize = optimize
            self.max_generate_length = MOST_PATCHES
            self.max_sequence_length = DotsTtsModel.DEFAULT_MAX_SEQUENCE_LENGTH
            self.vocoder_merge_steps = merged_patches
            self.sample_rate = int(model.config.vocoder.sample_rate)
            model.set_optimize(optimize, max_sequence_length=self.max_sequence_length)

        def _load_prompt_audio(self, prompt_audio_path: Any) -> Any:
            return prompt_audio_path

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of the library's way to write its layers
            model = Checkpoint.from_pretrained(folder)
        model.core.to(dtype=dtype)
        return Runtime(model.to(device).eval())
    except pickle.UnpicklingError as error:
        raise EngineUnavailable(
            f"dots's checkpoint {folder} has something else than numbers in latent_stats.pt; it isn't run"
        ) from error
    except Exception as error:
        reason = str(error).strip().partition("\n")[0] or repr(error)
        raise EngineUnavailable(f"dots couldn't be loaded: {reason}") from error


def import_library() -> None:
    """Raises EngineUnavailable."""
    with _without_normalisers(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with_torchaudio("dots_tts", same_minor=True)
        importlib.import_module("dots_tts.runtime_double_streaming")
    from dots_tts.models.dots_tts import core
    from loguru import logger

    logger.disable("dots_tts")
    core.IOHelper = _statistics_without_code(core.IOHelper)


def _statistics_without_code(io_helper: Any) -> Any:
    """Its constructor alone is replaced: it unpickles whatever is in the file."""
    if hasattr(io_helper, "runs_no_code"):
        return io_helper

    class Statistics(io_helper):  # type: ignore[misc]
        runs_no_code = True

        def __init__(self, latent_stats_path: Path | None = None) -> None:
            super().__init__(None)
            if latent_stats_path is not None:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # what it says of a strange file, it raises, too
                    values = torch.load(latent_stats_path, weights_only=True)
                self.global_mean = torch.as_tensor(values["mean"])
                self.global_var = torch.as_tensor(values["var"])

    return Statistics


@contextmanager
def _without_normalisers() -> Iterator[None]:
    """The library imports them at once, and uses them only where it is asked to normalise."""
    absent = [name for name in ("tn", "tn.chinese", "tn.english", *_NORMALISERS) if name not in sys.modules]
    for name in absent:
        stand_in: Any = ModuleType(name)
        stand_in.Normalizer = None
        sys.modules[name] = stand_in
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]
