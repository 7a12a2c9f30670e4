"""S32, V3: an id is what the voice sounds like, and nothing else."""

import hashlib
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from tests.voices.recordings import tone
from voices.clip import Clip
from voices.reference import CloneMode
from voices.report import Report
from voices.voice import StoredClip, Traits, Voice, is_voice_id, voice_id_of

CLIP = Clip.of(tone(), 24000)
TRAITS = Traits(transcript="hello")
OTHERS: dict[str, Any] = {
    "transcript": "hallo",
    "language": "de",
    "engine": "pocket",
    "mode": "audio",
    "tone_transcript": "so",
}


def voice(traits: Traits) -> Voice:
    report = Report(
        duration_s=4.0,
        sample_rate_hz=24000,
        peak_dbfs=-1.0,
        loudness_dbfs=-20.0,
        noise_dbfs=-60.0,
        clipped_ratio=0.0,
        silence_ratio=0.0,
        repaired=(),
        warnings=(),
    )
    stored = StoredClip(length_bytes=1, sha256="")
    return Voice(voice_id="", name="", created_s=0.0, traits=traits, report=report, clip=stored)


def test_s32_the_same_content_has_the_same_id_on_every_machine() -> None:
    found = voice_id_of(TRAITS, CLIP, None)
    assert found == voice_id_of(replace(TRAITS), Clip(CLIP.pcm.copy(), 24000), None)
    assert is_voice_id(found)


def test_an_id_is_the_digest_that_the_docs_say() -> None:
    """Voices are found by it for years, so it can't change by chance."""
    head = (
        b'["1",{"engine":null,"language":null,"mode":null,"tone_transcript":null,"transcript":"a"},[8000,3]]'
    )
    clip = Clip(np.array([0, 1, -2], np.int16), 8000)
    digest = hashlib.blake2b(head + b"\0\0\1\0\xfe\xff", digest_size=16).hexdigest()
    assert voice_id_of(Traits(transcript="a"), clip, None) == f"v-{digest}"


@pytest.mark.parametrize("name", [field.name for field in fields(Traits)])
def test_a_change_of_anything_that_shapes_the_sound_is_another_voice(name: str) -> None:
    other = replace(TRAITS, **{name: OTHERS[name]})
    assert voice_id_of(other, CLIP, None) != voice_id_of(TRAITS, CLIP, None)


def test_one_sample_the_rate_or_a_second_recording_is_another_voice() -> None:
    changed = CLIP.pcm.copy()
    changed[1000] += 1
    ids = {
        voice_id_of(TRAITS, CLIP, None),
        voice_id_of(TRAITS, Clip(changed, 24000), None),
        voice_id_of(TRAITS, Clip(CLIP.pcm, 22050), None),
        voice_id_of(TRAITS, CLIP, CLIP),
        voice_id_of(TRAITS, Clip(np.concatenate([CLIP.pcm, CLIP.pcm]), 24000), None),
    }
    assert len(ids) == 5


@pytest.mark.parametrize(
    "text",
    ["", "v-", "../../etc/passwd", "v-" + "g" * 32, "v-" + "0" * 31, "V-" + "0" * 32, "v-" + "0" * 32 + "\n"],
)
def test_nothing_else_is_an_id(text: str) -> None:
    assert not is_voice_id(text)


BOTH: frozenset[CloneMode] = frozenset({"audio", "audio+text"})


@pytest.mark.parametrize(
    ("traits", "clones", "mode"),
    [
        (Traits(), BOTH, "audio"),
        (Traits(transcript="a"), BOTH, "audio+text"),
        (Traits(transcript="a", mode="audio"), BOTH, "audio"),
        (Traits(transcript="a", mode="audio+text"), frozenset({"audio"}), None),
        (Traits(transcript="a"), frozenset({"audio"}), "audio"),
        (Traits(), frozenset({"audio+text"}), None),
        (Traits(transcript="a"), frozenset(), None),
        (Traits(engine="one"), BOTH, "audio"),
        (Traits(engine="other"), BOTH, None),
    ],
)
def test_an_engine_uses_a_voice_as_both_allow(
    traits: Traits, clones: frozenset[CloneMode], mode: CloneMode | None
) -> None:
    assert voice(traits).mode_for("one", clones) == mode
