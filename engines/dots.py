"""dots.tts: clones voices in 24 languages, speaks in steps of 160 ms, and takes text while it speaks."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from engines.contract import BuiltinVoice, EngineUnavailable, Facts, Info, OptionError, Source
from engines.digest import folder_digest
from engines.installed import installed_version
from engines.option_checks import check_count, check_flag, check_number, read_settings
from engines.torch_device import Precision, check_precision, check_threads

if TYPE_CHECKING:
    from engines.dots_model import DotsModel

PATCH_S = 0.16
"""Audio of one turn of the network."""
MERGED_PATCHES = 4
"""Turned to sound together where the network is compiled, but for the first two."""
ANY_VOICE = "any"
_LANGUAGES = """
en zh yue es fr ru de pt ar it ja ko id vi tr nl uk th pl ro el cs fi hi
"""
"""Those that the authors have measured."""
_FOOTPRINT_BYTES = {"": 6_300_000_000, "audio": 6_300_000_000, "audio+text": 8_000_000_000}
"""Of the released checkpoints, measured on a card: a recording of 60 s takes 7.6e9."""
_FILES = frozenset({".json", ".safetensors", ".pt", ".txt"})
_DISTILLED_STEPS, _STEPS = 4, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class DotsOptions:
    """Of one request; None: as the engine's settings or the checkpoint say."""

    num_steps: int | None = None
    """Turns of the solver for each patch."""
    guidance_scale: float | None = None
    speaker_scale: float | None = None
    """How closely a cloned voice is followed."""

    def __post_init__(self) -> None:
        if self.num_steps is not None:
            check_count("num_steps", self.num_steps, 1, 32)
        for name in ("guidance_scale", "speaker_scale"):
            if (value := getattr(self, name)) is not None:
                check_number(name, value, 0, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class DotsSettings:
    steps: int | None = None
    """Turns of the solver for each patch; None: the checkpoint's own number, 4 for a distilled one, else 10."""
    optimize: bool = True
    """Compiled: several times faster, ready after some minutes, and one stream at a time."""
    dtype: Precision = "auto"
    threads: int = 1

    @classmethod
    def from_source(cls, source: Source) -> Self:
        return read_settings(cls, source, "dots")

    def __post_init__(self) -> None:
        if self.steps is not None:
            check_count("steps", self.steps, 1, 32)
        check_flag("optimize", self.optimize)
        check_precision(self.dtype)
        check_threads(self.threads)


@dataclass(frozen=True, slots=True)
class Sampling:
    """Explicit, always: the library's own default is ten steps whatever the checkpoint."""

    num_steps: int
    guidance_scale: float
    fixed: bool
    """The checkpoint was made for these, and the library refuses others."""

    def of(self, options: DotsOptions) -> tuple[int, float]:
        """Raises OptionError."""
        asked = {"num_steps": options.num_steps, "guidance_scale": options.guidance_scale}
        for name, value in asked.items():
            own = getattr(self, name)
            if self.fixed and value is not None and value != own:
                raise OptionError(name, f"this checkpoint was made for {own:g} alone")
        steps, guidance = asked.values()
        return (
            self.num_steps if steps is None else int(steps),
            self.guidance_scale if guidance is None else float(guidance),
        )


class DotsEngine:
    """`Source.path`: the folder of a checkpoint; the rest is in DotsSettings."""

    @property
    def info(self) -> Info:
        return Info(
            name="dots",
            version=installed_version("dots-tts"),
            extra="dots",
            devices=frozenset({"cuda"}),
            languages={tag: tag.upper() for tag in _LANGUAGES.split()},
            voices=(BuiltinVoice(ANY_VOICE, "Any", "en"),),
            clones=frozenset({"audio", "audio+text"}),
            options=DotsOptions,
        )

    def identify(self, source: Source) -> Facts:
        settings = DotsSettings.from_source(source)
        folder = _folder(source)
        config = _config(folder)
        sampling = _sampling(config, settings)
        shaped_by = f"{sampling.num_steps} {sampling.guidance_scale} {settings.optimize} {settings.dtype}"
        content = folder_digest(folder, suffixes=_FILES)
        return Facts(
            checkpoint=hashlib.sha256(f"{shaped_by}\n{content}".encode()).hexdigest()[:32],
            sample_rate_hz=int(config["vocoder"]["sample_rate"]),
            max_open=1 if settings.optimize else 1 << 30,
            step_s=PATCH_S * (MERGED_PATCHES if settings.optimize else 1),
            max_chars=240,
            grows=_takes_text_while_it_speaks(config),
            sampling=True,
            footprint_bytes=_FOOTPRINT_BYTES,
        )

    def load(self, source: Source, device: str) -> "DotsModel":
        if device != "cpu" and device not in self.info.devices:
            raise EngineUnavailable(f"dots runs on CUDA, or slowly on the CPU, not on {device!r}")
        settings = DotsSettings.from_source(source)
        folder = _folder(source)
        config = _config(folder)
        from engines.dots_model import DotsModel

        return DotsModel(
            folder,
            device=device,
            settings=settings,
            sampling=_sampling(config, settings),
            grows=_takes_text_while_it_speaks(config),
        )


engine = DotsEngine()


def _folder(source: Source) -> Path:
    if source.path is None:
        raise EngineUnavailable(
            "dots needs the folder of a checkpoint: hf download dots-studio/dots.tts-mf --local-dir FOLDER, "
            "and path = FOLDER"
        )
    folder = Path(source.path).expanduser()
    if not (folder / "config.json").is_file():
        raise EngineUnavailable(f"dots's checkpoint {folder} has no config.json")
    return folder


def _config(folder: Path) -> Mapping[str, Any]:
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))
        config["vocoder"]["sample_rate"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EngineUnavailable(f"{folder / 'config.json'} can't be read: {error!r}") from error
    return config


def _sampling(config: Mapping[str, Any], settings: DotsSettings) -> Sampling:
    own = config.get("sampling")
    if own is not None:
        fixed = Sampling(int(own.get("num_steps", 2)), float(own.get("guidance_scale", 0)), fixed=True)
        if settings.steps not in {None, fixed.num_steps}:
            raise OptionError("steps", f"this checkpoint was made for {fixed.num_steps} alone")
        return fixed
    distilled = bool((config.get("meanflow") or {}).get("enabled"))
    return Sampling(settings.steps or (_DISTILLED_STEPS if distilled else _STEPS), 1.2, fixed=False)


def _takes_text_while_it_speaks(config: Mapping[str, Any]) -> bool:
    return config.get("streaming") is not None
