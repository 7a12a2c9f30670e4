"""From an uploaded file to a stored voice."""

from dataclasses import dataclass
from typing import BinaryIO

from voices.clip import Clip
from voices.errors import Unusable
from voices.library import Library
from voices.preparing import prepare
from voices.reading import Bounds, read
from voices.report import Report
from voices.voice import StoredClip, Traits, Voice, voice_id_of

_NOT_YET = StoredClip(length_bytes=0, sha256="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    audio: BinaryIO
    name: str | None
    """None: its id is its name."""
    traits: Traits
    tone_audio: BinaryIO | None = None


@dataclass(frozen=True, slots=True)
class Made:
    voice: Voice
    report: Report
    """Of this upload; the voice may have been there, from a file that was worse or better."""
    is_new: bool


def make_voice(library: Library, upload: Upload, bounds: Bounds, *, now_s: float) -> Made:
    """Reads, repairs and stores; all of it works, or nothing is left. Blocks. Raises VoicesError."""
    if upload.traits.mode == "audio+text" and not upload.traits.transcript:
        raise Unusable("ref_text", "mode audio+text needs ref_text, what is said in the recording")
    if (upload.tone_audio is None) != (upload.traits.tone_transcript is None):
        raise Unusable("seed_text", "seed_audio and seed_text are given together or not at all")
    recording = read(upload.audio, bounds)
    clip, report = prepare(recording, bounds, transcript=upload.traits.transcript)
    tone_clip = _tone_clip(upload, bounds)
    voice_id = voice_id_of(upload.traits, clip, tone_clip)
    voice = Voice(
        voice_id=voice_id,
        name=upload.name or voice_id,
        created_s=round(now_s, 3),
        traits=upload.traits,
        report=report,
        clip=_NOT_YET,
        tone_clip=None,
    )
    stored, is_new = library.add(voice, clip, tone_clip)
    return Made(stored, report, is_new)


def _tone_clip(upload: Upload, bounds: Bounds) -> Clip | None:
    if upload.tone_audio is None:
        return None
    recording = read(upload.tone_audio, bounds, param="seed_audio")
    transcript = upload.traits.tone_transcript
    clip, _ = prepare(recording, bounds, transcript=transcript, audio="seed_audio", text="seed_text")
    return clip
