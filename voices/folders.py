"""How voices and their prompts lie in the store, and what of it can be trusted."""

import logging
from dataclasses import dataclass, field

import msgspec
import soundfile

from voices.clip import Clip
from voices.errors import VoiceBroken, VoiceMissing
from voices.objects import Objects
from voices.voice import StoredClip, Voice, is_voice_id

log = logging.getLogger(__name__)

_VOICES = "voices"
_PROMPTS = "prompts"
_META, _CLIP, _TONE = "meta.json", "audio.flac", "tone.flac"
_ABANDONED_S = 3600.0
"""A recording without its description is an upload under way, or after so long one that was cut off."""


@dataclass(slots=True)
class Folder:
    """What is seen of a voice without opening anything: its files' lengths and times."""

    voice_id: str
    files: dict[str, tuple[int, float]] = field(default_factory=dict)

    @property
    def described(self) -> bool:
        """There is no voice without."""
        return _META in self.files

    @property
    def stamp(self) -> tuple[int, float]:
        """Another one when a file is another."""
        return sum(length for length, _ in self.files.values()), self.files[_META][1]


class Folders:
    """Blocks; every thread may use it. Methods raise StoreFailed; what a voice is asked for by has to be an id."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    # Looking -----------------------------------------------------------------------------------------------

    def all(self) -> list[Folder]:
        folders: dict[str, Folder] = {}
        for path, stamp in self._objects.sizes_bytes(_VOICES).items():
            match path.split("/"):
                case [_, voice_id, name]:
                    folders.setdefault(voice_id, Folder(voice_id)).files[name] = stamp
        return list(folders.values())

    def one(self, voice_id: str) -> Folder:
        prefix = f"{_VOICES}/{voice_id}/"
        sizes = self._objects.sizes_bytes(prefix)
        return Folder(voice_id, {path.removeprefix(prefix): stamp for path, stamp in sizes.items()})

    def read(self, folder: Folder) -> Voice | None:
        """None, with a warning, for one that can't be used."""
        data = self._objects.get(_meta(folder.voice_id))
        if data is None:
            return None
        try:
            voice = msgspec.json.decode(data, type=Voice)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            log.warning("voice %s is skipped: its %s can't be read: %s", folder.voice_id, _META, error)
            return None
        if voice.voice_id != folder.voice_id or not is_voice_id(folder.voice_id):
            log.warning("voice %s is skipped: its %s is of another voice", folder.voice_id, _META)
            return None
        for name, clip in ((_CLIP, voice.clip), (_TONE, voice.tone_clip)):
            if clip is not None and folder.files.get(name, (None, 0.0))[0] != clip.length_bytes:
                log.warning("voice %s is skipped: its %s is missing or has changed", voice.voice_id, name)
                return None
        return voice

    def clip(self, voice: Voice, stored: StoredClip) -> Clip:
        """`stored`: one of the voice's two. Raises VoiceMissing, or VoiceBroken where it isn't what was stored."""
        data = self._objects.get(_path(voice.voice_id, _CLIP if stored is voice.clip else _TONE))
        if data is None:
            if self._objects.get(_meta(voice.voice_id)) is None:
                raise VoiceMissing(voice.voice_id)
            raise VoiceBroken(voice.voice_id, "its recording is gone")
        if StoredClip.of(data) != stored:
            raise VoiceBroken(voice.voice_id, "its recording has changed")
        return Clip.from_file(data)

    # Changing ----------------------------------------------------------------------------------------------

    def put_clips(
        self, voice_id: str, clip: Clip, tone_clip: Clip | None
    ) -> tuple[StoredClip, StoredClip | None]:
        stored = self._put_clip(_path(voice_id, _CLIP), clip)
        return stored, None if tone_clip is None else self._put_clip(_path(voice_id, _TONE), tone_clip)

    def describe(self, voice: Voice, *, replace: bool) -> bool:
        """After its clips: this makes it a voice. False: it has been described already, and that stays."""
        return self._objects.put(_meta(voice.voice_id), msgspec.json.encode(voice), replace=replace)

    def remove(self, voice_id: str) -> bool:
        """Description first, then recordings and prompts. False: there was no voice."""
        existed = self._objects.delete(_meta(voice_id))
        for prefix in (f"{_VOICES}/{voice_id}/", f"{_PROMPTS}/{voice_id}/"):
            for path in self._objects.sizes_bytes(prefix):
                self._objects.delete(path)
        return existed

    def sweep(self, now_s: float) -> None:
        """What killed processes have left behind."""
        for kind in (_VOICES, _PROMPTS):
            self._objects.sweep(f"{kind}/v-*/*", _ABANDONED_S)
        for folder in self.all():
            if folder.described or not is_voice_id(folder.voice_id):
                continue
            for name, (_, written_s) in folder.files.items():
                if name in {_CLIP, _TONE} and written_s < now_s - _ABANDONED_S:
                    self._objects.delete(_path(folder.voice_id, name))

    # Prompts -----------------------------------------------------------------------------------------------

    def prompt(self, voice_id: str, name: str) -> bytes | None:
        return self._objects.get(f"{_PROMPTS}/{voice_id}/{name}")

    def put_prompt(self, voice_id: str, name: str, data: bytes) -> None:
        """In the place of one that there may be. Nothing is left of it when its voice is removed meanwhile."""
        path = f"{_PROMPTS}/{voice_id}/{name}"
        self._objects.put(path, data, replace=True)
        if self._objects.get(_meta(voice_id)) is None:
            self._objects.delete(path)

    def _put_clip(self, path: str, clip: Clip) -> StoredClip:
        """A file that is there already and has the same sound is kept: another machine may describe it just now."""
        data = clip.encode("FLAC")
        if not self._objects.put(path, data, replace=False):
            there = self._objects.get(path)
            if there is not None and _sounds_like(there, clip):
                return StoredClip.of(there)
            self._objects.put(path, data, replace=True)
        return StoredClip.of(data)


def _path(voice_id: str, name: str) -> str:
    return f"{_VOICES}/{voice_id}/{name}"


def _meta(voice_id: str) -> str:
    return _path(voice_id, _META)


def _sounds_like(data: bytes, clip: Clip) -> bool:
    try:
        return Clip.from_file(data).same_as(clip)
    except soundfile.SoundFileError:
        return False
