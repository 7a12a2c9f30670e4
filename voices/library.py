"""The voices that were uploaded: found without blocking, kept whole or not at all."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec
import soundfile

from voices.clip import Clip
from voices.errors import VoiceBroken, VoiceMissing
from voices.objects import Objects
from voices.reference import Reference
from voices.voice import StoredClip, Voice, is_voice_id, voice_id_of

log = logging.getLogger(__name__)

_VOICES = "voices"
_PROMPTS = "prompts"
_META, _CLIP, _TONE = "meta.json", "audio.flac", "tone.flac"
_ABANDONED_S = 3600.0
"""A recording without its description is an upload under way, or after so long one that was cut off."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A description as it was read, good while the object is the same."""

    stamp: tuple[int, float]
    voice: Voice | None
    """None: it can't be used, and has been warned of."""


class Library:
    """Every thread may use it. `find` and `voices` answer from memory; all else blocks, and raises StoreFailed.

    A voice is a folder: its recording, then `meta.json`, whose atomic appearance is what makes it exist.
    """

    def __init__(self, objects: Objects, *, now: Callable[[], float] = time.time) -> None:
        self._objects = objects
        self._now = now
        self._lock = threading.RLock()
        self._known: dict[str, _Known] = {}
        self._voices: dict[str, Voice] = {}
        """Never changed, only replaced."""
        self._refreshed_s = float("-inf")

    # From memory -------------------------------------------------------------------------------------------

    def find(self, voice_id: str) -> Voice | None:
        return self._voices.get(voice_id)

    def voices(self) -> list[Voice]:
        """The oldest first."""
        return list(self._voices.values())

    # Reading -----------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """See what other processes have added or removed; a crowd of calls reads the store once or twice."""
        asked_s = time.monotonic()
        with self._lock:
            if self._refreshed_s > asked_s:
                return
            began_s = time.monotonic()
            sizes = self._objects.sizes_bytes(_VOICES)
            folders: dict[str, dict[str, tuple[int, float]]] = {}
            for path, stamp in sizes.items():
                parts = path.split("/")
                if len(parts) == 3:
                    folders.setdefault(parts[1], {})[parts[2]] = stamp
            known = {}
            for voice_id, files in folders.items():
                if _META in files:
                    known[voice_id] = self._known_in(voice_id, files)
                else:
                    self._clear_abandoned(voice_id, files)
            self._known = known
            self._publish()
            self._refreshed_s = began_s

    def look_up(self, voice_id: str) -> Voice | None:
        """One voice, wherever it was added; any text may be asked for."""
        if not is_voice_id(voice_id):
            return None
        found = self.find(voice_id)
        if found is not None:
            return found
        with self._lock:
            prefix = f"{_VOICES}/{voice_id}/"
            sizes = self._objects.sizes_bytes(prefix)
            files = {path.removeprefix(prefix): stamp for path, stamp in sizes.items()}
            if _META in files:
                self._known[voice_id] = self._known_in(voice_id, files)
                self._publish()
        return self.find(voice_id)

    def clip(self, voice_id: str, *, tone: bool = False) -> Clip:
        """Raises VoiceMissing or VoiceBroken."""
        voice = self.look_up(voice_id)
        if voice is None:
            raise VoiceMissing(voice_id)
        stored = voice.tone_clip if tone else voice.clip
        assert stored is not None  # noqa: S101 - whoever asks for the tone has seen that there is one
        data = self._objects.get(f"{_VOICES}/{voice_id}/{_TONE if tone else _CLIP}")
        if data is None:
            raise (
                VoiceMissing(voice_id)
                if self._objects.get(_meta_path(voice_id)) is None
                else VoiceBroken(voice_id, "its recording is gone")
            )
        if StoredClip.of(data) != stored:
            raise VoiceBroken(voice_id, "its recording has changed")
        return Clip.from_file(data)

    def reference(self, voice_id: str) -> Reference:
        """For an engine to clone from. Raises VoiceMissing or VoiceBroken."""
        clip = self.clip(voice_id)
        voice = self.look_up(voice_id)
        if voice is None:
            raise VoiceMissing(voice_id)
        traits = voice.traits
        reference = Reference(clip.samples(), clip.sample_rate_hz, traits.transcript, traits.language)
        if voice.tone_clip is None:
            return reference
        tone = self.clip(voice_id, tone=True)
        second = Reference(tone.samples(), tone.sample_rate_hz, traits.tone_transcript, traits.language)
        return replace(reference, tone=second)

    # Changing ----------------------------------------------------------------------------------------------

    def add(self, voice: Voice, clip: Clip, tone_clip: Clip | None) -> tuple[Voice, bool]:
        """The voice as it is stored, and whether it is new; one that is there stays as it is, name and all.

        `voice.clip` and `voice.tone_clip` are filled in here.
        """
        assert voice.voice_id == voice_id_of(voice.traits, clip, tone_clip)  # noqa: S101 - a caller's mistake
        with self._lock:
            there = self._whole(voice.voice_id, clip, tone_clip)
            if there is not None:
                return there, False
            stored = replace(
                voice,
                clip=self._put_clip(voice.voice_id, _CLIP, clip),
                tone_clip=None if tone_clip is None else self._put_clip(voice.voice_id, _TONE, tone_clip),
            )
            path, data = _meta_path(voice.voice_id), msgspec.json.encode(stored)
            if not self._objects.put(path, data, replace=False):
                # Another process was quicker, or what is there can't be used.
                there = self._whole(voice.voice_id, clip, tone_clip)
                if there is not None:
                    return there, False
                self._objects.put(path, data, replace=True)
            self.look_up(voice.voice_id)
            return stored, True

    def remove(self, voice_id: str) -> bool:
        """False: there is no such voice. Its prompts go with it."""
        if not is_voice_id(voice_id):
            return False
        with self._lock:
            existed = self._objects.delete(_meta_path(voice_id))
            for prefix in (f"{_VOICES}/{voice_id}/", f"{_PROMPTS}/{voice_id}/"):
                for path in self._objects.sizes_bytes(prefix):
                    self._objects.delete(path)
            self._known.pop(voice_id, None)
            self._publish()
        return existed

    def sweep(self) -> None:
        """What killed processes have left behind."""
        for kind in (_VOICES, _PROMPTS):
            self._objects.sweep(f"{kind}/v-*/*", _ABANDONED_S)

    # Prompts -----------------------------------------------------------------------------------------------

    def prompt(self, voice_id: str, name: str) -> bytes | None:
        return self._objects.get(f"{_PROMPTS}/{voice_id}/{name}")

    def put_prompt(self, voice_id: str, name: str, data: bytes, *, replace: bool) -> None:
        """Nothing is left of it when the voice is removed meanwhile."""
        path = f"{_PROMPTS}/{voice_id}/{name}"
        self._objects.put(path, data, replace=replace)
        if self._objects.get(_meta_path(voice_id)) is None:
            self._objects.delete(path)

    # Inside ------------------------------------------------------------------------------------------------

    def _publish(self) -> None:
        found = [known.voice for known in self._known.values() if known.voice is not None]
        found.sort(key=lambda voice: (voice.created_s, voice.voice_id))
        self._voices = {voice.voice_id: voice for voice in found}

    def _known_in(self, voice_id: str, files: dict[str, tuple[int, float]]) -> _Known:
        written_s = files[_META][1]
        stamp = (sum(size for size, _ in files.values()), written_s)
        known = self._known.get(voice_id)
        if known is not None and known.stamp == stamp:
            return known
        sizes = {name: size for name, (size, _) in files.items()}
        voice = self._read(voice_id, sizes)
        return _Known(stamp, voice)

    def _read(self, voice_id: str, sizes: dict[str, int]) -> Voice | None:
        """Warns once of what can't be used."""
        data = self._objects.get(_meta_path(voice_id))
        if data is None:
            return None
        try:
            voice = msgspec.json.decode(data, type=Voice)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            log.warning("voice %s is skipped: its %s can't be read: %s", voice_id, _META, error)
            return None
        wanted = {_CLIP: voice.clip, **({} if voice.tone_clip is None else {_TONE: voice.tone_clip})}
        if voice.voice_id != voice_id or not is_voice_id(voice_id):
            log.warning("voice %s is skipped: its %s is of another voice", voice_id, _META)
            return None
        for name, clip in wanted.items():
            if sizes.get(name) != clip.length_bytes:
                log.warning("voice %s is skipped: its %s is missing or has changed", voice_id, name)
                return None
        return voice

    def _whole(self, voice_id: str, clip: Clip, tone_clip: Clip | None) -> Voice | None:
        """The stored voice if everything of it is as it should be."""
        voice = self.look_up(voice_id)
        if voice is None:
            return None
        try:
            recordings = [(self.clip(voice_id), clip)]
            if tone_clip is not None:
                recordings.append((self.clip(voice_id, tone=True), tone_clip))
        except (VoiceMissing, VoiceBroken):
            recordings = []
        if recordings and all(_same(stored, wanted) for stored, wanted in recordings):
            return voice
        self._known.pop(voice_id, None)
        self._publish()
        return None

    def _put_clip(self, voice_id: str, name: str, clip: Clip) -> StoredClip:
        """A file that is there already and has the same sound is kept: another machine may describe it just now."""
        path, data = f"{_VOICES}/{voice_id}/{name}", clip.encode("FLAC")
        if not self._objects.put(path, data, replace=False):
            there = self._objects.get(path)
            if there is not None and _sounds_like(there, clip):
                return StoredClip.of(there)
            self._objects.put(path, data, replace=True)
        return StoredClip.of(data)

    def _clear_abandoned(self, voice_id: str, files: dict[str, tuple[int, float]]) -> None:
        for name, (_, written_s) in files.items():
            ours = is_voice_id(voice_id) and name in {_CLIP, _TONE}
            if ours and written_s < self._now() - _ABANDONED_S:
                self._objects.delete(f"{_VOICES}/{voice_id}/{name}")


def _meta_path(voice_id: str) -> str:
    return f"{_VOICES}/{voice_id}/{_META}"


def _same(one: Clip, other: Clip) -> bool:
    return one.sample_rate_hz == other.sample_rate_hz and one.pcm.tobytes() == other.pcm.tobytes()


def _sounds_like(data: bytes, clip: Clip) -> bool:
    try:
        return _same(Clip.from_file(data), clip)
    except soundfile.SoundFileError:
        return False
