"""Kokoro's voices: their names, and the styles that stand for them, from a folder, an archive or the hub."""

import hashlib
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engines import hub
from engines.contract import BuiltinVoice, EngineUnavailable, OptionError

HUB_REPO = "onnx-community/Kokoro-82M-v1.0-ONNX"
HUB_REVISION = "1939ad2a8e416c0acfeecc08a694d14ef25f2231"
LANGUAGES = {
    "en-US": "en-us",
    "en-GB": "en-gb",
    "es": "es",
    "fr": "fr-fr",
    "hi": "hi",
    "it": "it",
    "pt-BR": "pt-br",
}
"""BCP-47: espeak-ng's word. Not Japanese and Chinese: their voices were trained on other phonemes than espeak-ng's."""
_LANGUAGE_OF = {"a": "en-US", "b": "en-GB", "e": "es", "f": "fr", "h": "hi", "i": "it", "p": "pt-BR"}
_LISTED = """
af_heart af_alloy af_aoede af_bella af_jessica af_kore af_nicole af_nova af_river af_sarah af_sky
am_adam am_echo am_eric am_fenrir am_liam am_michael am_onyx am_puck am_santa
bf_alice bf_emma bf_isabella bf_lily bm_daniel bm_fable bm_george bm_lewis
ef_dora em_alex em_santa ff_siwis hf_alpha hf_beta hm_omega hm_psi if_sara im_nicola pf_dora pm_alex pm_santa
"""
_NAMES = _LISTED.split()

Style = NDArray[np.float32]
"""float32 [phonemes, 1, 256]: the row for as many phonemes as are spoken."""
_STYLE_COLUMNS = 256


def builtin(name: str) -> BuiltinVoice:
    return BuiltinVoice(name, name.partition("_")[2].capitalize(), _LANGUAGE_OF[name[0]])


def speakable(name: str) -> bool:
    return name[:1] in _LANGUAGE_OF and name[2:3] == "_"


KNOWN = tuple(builtin(name) for name in _NAMES)


class Styles:
    """Where each voice's style is; it is read when it is first asked for."""

    def __init__(self, readers: Mapping[str, Callable[[], Style]], digest: str, *, remote: bool) -> None:
        self._readers = dict(readers)
        self._read: dict[str, Style] = {}
        self.digest = digest
        self.remote = remote
        """Reading one can take as long as the hub does."""

    @property
    def voices(self) -> tuple[BuiltinVoice, ...]:
        order = {voice.voice_id: index for index, voice in enumerate(KNOWN)}
        names = sorted(self._readers, key=lambda name: (order.get(name, len(order)), name))
        return tuple(builtin(name) for name in names)

    def __contains__(self, name: str) -> bool:
        return name in self._readers

    def ready(self, name: str) -> bool:
        return name in self._read or not self.remote

    def read(self, name: str) -> Style:
        """Raises EngineUnavailable."""
        if name not in self._read:
            style = np.asarray(self._readers[name](), np.float32)
            if style.ndim < 2 or style.shape[-1] != _STYLE_COLUMNS or not np.isfinite(style).all():
                raise EngineUnavailable(f"the style of {name!r} has the shape {style.shape}")
            self._read[name] = style.reshape(len(style), 1, _STYLE_COLUMNS)
        return self._read[name]


def from_path(path: Path) -> Styles:
    """A folder of NAME.bin, or an archive such as voices-v1.0.bin. Raises OptionError, EngineUnavailable."""
    if path.is_dir():
        files = {file.stem: file for file in sorted(path.glob("*.bin")) if speakable(file.stem)}
        readers = {name: partial(_raw, file) for name, file in files.items()}
        found = Styles(readers, _digest(files.values()), remote=False)
    elif path.is_file():
        found = _from_archive(path)
    else:
        raise OptionError("voices", f"there is no {path}")
    if not found.voices:
        raise OptionError(
            "voices", f"{path} has no voices: NAME.bin in a folder, or an archive such as voices-v1.0.bin"
        )
    return found


def from_hub(revision: str) -> Styles:
    readers = {name: partial(_fetched, name, revision) for name in _NAMES}
    return Styles(readers, f"{HUB_REPO} {revision}", remote=True)


def _fetched(name: str, revision: str) -> Style:
    return _raw(hub.fetch(HUB_REPO, f"voices/{name}.bin", revision, engine="kokoro"))


def _raw(file: Path) -> Style:
    values = np.fromfile(file, "<f4")
    if not values.size or values.size % _STYLE_COLUMNS:
        raise EngineUnavailable(f"{file} isn't a voice of Kokoro's")
    return values.reshape(-1, 1, _STYLE_COLUMNS)


def _from_archive(path: Path) -> Styles:
    try:
        with np.load(path, allow_pickle=False) as archive:
            names = [name for name in archive.files if speakable(name)]
    except (ValueError, OSError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise OptionError("voices", f"{path} isn't an archive of voices: {error}") from error
    return Styles({name: partial(_archived, path, name) for name in names}, _digest([path]), remote=False)


def _archived(path: Path, name: str) -> Style:
    try:
        with np.load(path, allow_pickle=False) as archive:
            style: Style = archive[name]
            return style
    except (ValueError, OSError, zlib.error, zipfile.BadZipFile) as error:
        raise EngineUnavailable(f"{name!r} in {path} can't be read: {error}") from error


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
