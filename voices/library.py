"""The voices that were uploaded: found without blocking, kept whole or not at all."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from voices.clip import Clip
from voices.errors import VoiceBroken, VoiceMissing
from voices.folders import Folder, Folders
from voices.objects import Objects
from voices.reference import Reference
from voices.voice import StoredClip, Voice, is_voice_id, voice_id_of


@dataclass(frozen=True, slots=True)
class _Known:
    """A folder as it was read, good while its files are the same."""

    stamp: tuple[int, float]
    voice: Voice | None
    """None: it can't be used, and has been warned of."""


class Library:
    """Every thread may use it. `find` and `voices` answer from memory; all else blocks, and raises StoreFailed.

    A voice is a folder: its recordings, then its description, whose atomic appearance is what makes it exist.
    """

    def __init__(self, objects: Objects, *, now: Callable[[], float] = time.time) -> None:
        self._folders = Folders(objects)
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
            folders = [folder for folder in self._folders.all() if folder.described]
            self._known = {folder.voice_id: self._known_in(folder) for folder in folders}
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
            folder = self._folders.one(voice_id)
            if folder.described:
                self._known[voice_id] = self._known_in(folder)
                self._publish()
        return self.find(voice_id)

    def clip(self, voice_id: str) -> Clip:
        """Raises VoiceMissing or VoiceBroken."""
        voice = self._existing(voice_id)
        return self._recording(voice, voice.clip)

    def reference(self, voice_id: str) -> Reference:
        """For an engine to clone from. Raises VoiceMissing or VoiceBroken."""
        voice = self._existing(voice_id)
        traits = voice.traits
        tone = None
        if voice.tone_clip is not None:
            second = self._recording(voice, voice.tone_clip)
            tone = Reference(second.samples(), second.sample_rate_hz, traits.tone_transcript, traits.language)
        clip = self._recording(voice, voice.clip)
        return Reference(clip.samples(), clip.sample_rate_hz, traits.transcript, traits.language, tone)

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
            stored, stored_tone = self._folders.put_clips(voice.voice_id, clip, tone_clip)
            added = replace(voice, clip=stored, tone_clip=stored_tone)
            if not self._folders.describe(added, replace=False):
                # Another process was quicker, or what is there can't be used.
                there = self._whole(voice.voice_id, clip, tone_clip)
                if there is not None:
                    return there, False
                self._folders.describe(added, replace=True)
            self.look_up(voice.voice_id)
            return added, True

    def remove(self, voice_id: str) -> bool:
        """False: there is no such voice. Its prompts go with it."""
        if not is_voice_id(voice_id):
            return False
        with self._lock:
            existed = self._folders.remove(voice_id)
            self._forget(voice_id)
        return existed

    def sweep(self) -> None:
        """Remove what killed processes have left behind."""
        self._folders.sweep(self._now())

    # Prompts -----------------------------------------------------------------------------------------------

    def prompt(self, voice_id: str, name: str) -> bytes | None:
        return self._folders.prompt(voice_id, name)

    def put_prompt(self, voice_id: str, name: str, data: bytes) -> None:
        """In the place of one that there may be; nothing is left of it when its voice is removed meanwhile."""
        self._folders.put_prompt(voice_id, name, data)

    # Inside ------------------------------------------------------------------------------------------------

    def _existing(self, voice_id: str) -> Voice:
        voice = self.look_up(voice_id)
        if voice is None:
            raise VoiceMissing(voice_id)
        return voice

    def _recording(self, voice: Voice, stored: StoredClip) -> Clip:
        try:
            return self._folders.clip(voice, stored)
        except VoiceMissing:
            # Another process has removed it.
            with self._lock:
                self._forget(voice.voice_id)
            raise

    def _known_in(self, folder: Folder) -> _Known:
        known = self._known.get(folder.voice_id)
        if known is not None and known.stamp == folder.stamp:
            return known
        return _Known(folder.stamp, self._folders.read(folder))

    def _publish(self) -> None:
        found = [known.voice for known in self._known.values() if known.voice is not None]
        found.sort(key=lambda voice: (voice.created_s, voice.voice_id))
        self._voices = {voice.voice_id: voice for voice in found}

    def _forget(self, voice_id: str) -> None:
        self._known.pop(voice_id, None)
        self._publish()

    def _whole(self, voice_id: str, clip: Clip, tone_clip: Clip | None) -> Voice | None:
        """The stored voice if everything of it is as it should be."""
        voice = self.look_up(voice_id)
        if voice is None:
            return None
        try:
            whole = self._folders.clip(voice, voice.clip).same_as(clip)
            if voice.tone_clip is not None and tone_clip is not None:
                whole = whole and self._folders.clip(voice, voice.tone_clip).same_as(tone_clip)
        except (VoiceMissing, VoiceBroken):
            whole = False
        if whole:
            return voice
        self._forget(voice_id)
        return None
