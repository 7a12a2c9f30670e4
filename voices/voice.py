"""A voice that was uploaded: what is known of it, and the name that its content gives it."""

import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass

import msgspec

from voices.clip import Clip
from voices.reference import CloneMode
from voices.report import Report

_ID = re.compile(r"v-[0-9a-f]{32}")
_FORMAT = "1"
"""Of what an id is made of; another one is another id for the same recording."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What its owner says of it, but for its name. Each of them shapes the sound."""

    transcript: str | None = None
    language: str | None = None
    """BCP-47"""
    engine: str | None = None
    """The only engine that may use it; None: any."""
    mode: CloneMode | None = None
    """The only way in which it may be used; None: as the engine and the transcript allow."""
    tone_transcript: str | None = None
    """Of the second recording, whose tone is to be kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredClip:
    """A clip's file, so that another one in its place is found out."""

    length_bytes: int
    sha256: str

    @classmethod
    def of(cls, data: bytes) -> "StoredClip":
        return cls(length_bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """As it is stored beside its recording."""

    voice_id: str
    name: str
    """A label: two voices may share it, and it can't be asked for."""
    created_s: float
    """Seconds since 1970."""
    traits: Traits
    report: Report
    clip: StoredClip
    tone_clip: StoredClip | None = None

    def mode_for(self, engine: str, clones: Collection[CloneMode]) -> CloneMode | None:
        """How the engine of this name, which clones in these ways, can use it; None: it can't."""
        if self.traits.engine not in (None, engine):
            return None
        if "audio+text" in clones and self.traits.transcript and self.traits.mode != "audio":
            return "audio+text"
        return "audio" if "audio" in clones and self.traits.mode != "audio+text" else None


def is_voice_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def voice_id_of(traits: Traits, clip: Clip, tone_clip: Clip | None) -> str:
    """The same on every machine: a digest of what the voice sounds like, its name left out."""
    digest = hashlib.blake2b(digest_size=16)
    # A list in JSON can't be read in two ways, and each clip's length stands before its samples.
    head = [_FORMAT, msgspec.to_builtins(traits)]
    head += [[one.sample_rate_hz, one.pcm.size] for one in (clip, tone_clip) if one is not None]
    digest.update(msgspec.json.encode(head, order="sorted"))
    for one in (clip, tone_clip):
        if one is not None:
            digest.update(one.pcm.astype("<i2").tobytes())
    return f"v-{digest.hexdigest()}"
