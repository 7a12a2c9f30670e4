"""Prompts as one engine's checkpoint takes them: computed once, found again by everything that shaped them."""

import hashlib
import logging

import msgspec

from voices.errors import StoreFailed
from voices.library import Library
from voices.reference import Clone, Reference

log = logging.getLogger(__name__)

_MAGIC = b"saystream prompt 1\n"
_HEAD_BYTES = len(_MAGIC) + hashlib.sha256().digest_size


class StoredPrompts:
    """For a lane's thread: it blocks. A store that fails costs time, never a voice.

    An object is a magic line, the SHA-256 of what follows, and then the engine's own bytes.
    """

    def __init__(self, library: Library, *, engine: str, version: str, checkpoint: str) -> None:
        self._library = library
        self._made_by = [engine, version, checkpoint]

    def stored(self, clone: Clone) -> bytes | None:
        try:
            data = self._library.prompt(clone.voice_id, self._name(clone))
        except StoreFailed as error:
            log.warning("a prompt of %s can't be read and is computed: %s", clone.voice_id, error)
            return None
        if data is None:
            return None
        head, prompt = data[:_HEAD_BYTES], data[_HEAD_BYTES:]
        if head != _head(prompt):
            log.warning("a prompt of %s is broken and is computed again", clone.voice_id)
            return None
        return prompt

    def keep(self, clone: Clone, prompt: bytes) -> None:
        """Over one that is there: it couldn't be used."""
        try:
            data = _head(prompt) + prompt
            self._library.put_prompt(clone.voice_id, self._name(clone), data)
        except StoreFailed as error:
            log.warning("a prompt of %s isn't kept: %s", clone.voice_id, error)

    def reference(self, clone: Clone) -> Reference:
        """Raises VoiceMissing, VoiceBroken or StoreFailed."""
        return self._library.reference(clone.voice_id)

    def _name(self, clone: Clone) -> str:
        made_from = msgspec.json.encode([*self._made_by, clone.mode])
        return hashlib.blake2b(made_from, digest_size=16).hexdigest()


def _head(prompt: bytes) -> bytes:
    return _MAGIC + hashlib.sha256(prompt).digest()
