"""Voices are kept whole or not at all, found at once and after a restart, and gone when removed."""

import io
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.voices.recordings import RATE_HZ, encoded, recording, tone
from voices.clip import Clip
from voices.errors import StoreFailed, Unusable, VoiceBroken, VoiceMissing
from voices.library import Library
from voices.making import Made, Upload, make_voice
from voices.objects import Objects
from voices.reading import Bounds
from voices.voice import Traits


def add(library: Library, data: bytes | None = None, *, name: str | None = None, **traits: str) -> Made:
    audio = io.BytesIO(recording() if data is None else data)
    upload = Upload(audio=audio, name=name, traits=Traits(**traits))  # type: ignore[arg-type]  # modes are strings
    return make_voice(library, upload, Bounds(), now_s=1_000_000.0)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_library_that_keeps_nothing_leaves_nothing_behind(library: Library, folder: Path) -> None:
    library.refresh()
    assert library.voices() == []
    assert library.look_up("v-" + "0" * 32) is None
    assert not library.remove("v-" + "0" * 32)
    with pytest.raises(Unusable):
        add(library, encoded(np.zeros(48000)))
    assert not folder.exists()


def test_v2_a_voice_is_there_at_once_and_after_a_restart(library: Library, folder: Path) -> None:
    made = add(library, name="Ann", transcript="one two three", language="en-GB")
    assert made.is_new
    assert library.find(made.voice.voice_id) == made.voice
    later = Library(Objects(folder))
    assert later.find(made.voice.voice_id) is None
    assert later.look_up(made.voice.voice_id) == made.voice
    other = Library(Objects(folder))
    other.refresh()
    assert other.voices() == [made.voice]
    assert (made.voice.name, made.voice.traits.language, made.voice.created_s) == (
        "Ann",
        "en-GB",
        1_000_000.0,
    )


def test_what_is_kept_is_the_recording(library: Library) -> None:
    made = add(library, encoded(tone(level=0.1 * 2**0.5)), transcript="one two three")
    reference = library.reference(made.voice.voice_id)
    assert (reference.sample_rate_hz, reference.transcript, reference.tone) == (
        RATE_HZ,
        "one two three",
        None,
    )
    # It ends with a tenth of a second of silence, which is all that is left of any.
    np.testing.assert_allclose(reference.samples, tone(level=0.1 * 2**0.5), atol=2 / 32768)


def test_s16_a_second_recording_is_kept_for_the_tone(library: Library) -> None:
    upload = Upload(
        audio=io.BytesIO(recording()),
        name=None,
        traits=Traits(tone_transcript="so calm and even"),
        tone_audio=io.BytesIO(recording(frequency_hz=300)),
    )
    made = make_voice(library, upload, Bounds(), now_s=0.0)
    reference = library.reference(made.voice.voice_id)
    assert reference.tone is not None
    assert reference.tone.transcript == "so calm and even"
    assert not np.array_equal(reference.samples, reference.tone.samples)
    assert made.voice.voice_id != add(library).voice.voice_id


@pytest.mark.parametrize("missing", ["seed_audio", "seed_text"])
def test_a_second_recording_and_its_text_come_together(library: Library, folder: Path, missing: str) -> None:
    upload = Upload(
        audio=io.BytesIO(recording()),
        name=None,
        traits=Traits(tone_transcript=None if missing == "seed_text" else "so"),
        tone_audio=None if missing == "seed_audio" else io.BytesIO(recording()),
    )
    with pytest.raises(Unusable, match="together"):
        make_voice(library, upload, Bounds(), now_s=0.0)
    assert not folder.exists()


def test_v3_the_same_clip_twice_is_one_voice_and_its_first_name_stays(library: Library) -> None:
    first, second = add(library, name="Ann"), add(library, name="Bob")
    assert (second.voice, second.is_new) == (first.voice, False)
    assert len(library.voices()) == 1


def test_v3_the_same_clip_in_another_container_is_the_same_voice(library: Library) -> None:
    same = Clip.of(tone(), RATE_HZ)
    assert add(library, same.encode("FLAC")).voice == add(library, same.encode("WAV")).voice


def test_fault_14_a_corrected_transcript_is_another_voice(library: Library) -> None:
    first, second = add(library, transcript="won two three"), add(library, transcript="one two three")
    assert second.is_new
    assert first.voice.voice_id != second.voice.voice_id
    assert library.reference(second.voice.voice_id).transcript == "one two three"


def test_a_name_never_leads_to_the_former_speaker(library: Library) -> None:
    first = add(library, name="Ann")
    second = add(library, recording(frequency_hz=300), name="Ann")
    assert first.voice.voice_id != second.voice.voice_id
    assert library.look_up("Ann") is None
    assert not np.array_equal(library.clip(first.voice.voice_id).pcm, library.clip(second.voice.voice_id).pcm)


def test_a_mode_that_needs_a_transcript_is_refused_without_one(library: Library, folder: Path) -> None:
    with pytest.raises(Unusable, match="needs ref_text") as caught:
        add(library, mode="audio+text")
    assert caught.value.param == "ref_text"
    assert not folder.exists()


def test_a_removed_voice_is_gone_with_all_that_was_made_of_it(library: Library, folder: Path) -> None:
    made, kept = add(library), add(library, recording(frequency_hz=300))
    library.put_prompt(made.voice.voice_id, "p", b"prompt")
    assert library.remove(made.voice.voice_id)
    assert not library.remove(made.voice.voice_id)
    assert library.find(made.voice.voice_id) is None
    assert all(kept.voice.voice_id in path for path in files(folder))
    with pytest.raises(VoiceMissing):
        library.reference(made.voice.voice_id)


def test_a_prompt_that_is_made_while_its_voice_is_removed_is_not_kept(library: Library, folder: Path) -> None:
    made = add(library)
    library.remove(made.voice.voice_id)
    library.put_prompt(made.voice.voice_id, "p", b"prompt")
    assert files(folder) == []


def test_what_another_process_adds_and_removes_is_seen(library: Library, folder: Path) -> None:
    other = Library(Objects(folder))
    made = add(other)
    library.refresh()
    assert library.voices() == [made.voice]
    other.remove(made.voice.voice_id)
    library.refresh()
    assert library.voices() == []


def test_a_voice_that_another_process_removed_is_forgotten_when_it_is_wanted(
    library: Library, folder: Path
) -> None:
    made = add(library)
    Library(Objects(folder)).remove(made.voice.voice_id)
    assert library.find(made.voice.voice_id) is not None
    with pytest.raises(VoiceMissing):
        library.reference(made.voice.voice_id)
    assert library.find(made.voice.voice_id) is None


def damage_meta(folder: Path) -> None:
    (folder / "meta.json").write_text("{")


def damage_of_another(folder: Path) -> None:
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps({**meta, "voice_id": "v-" + "1" * 32}))


def damage_audio(folder: Path) -> None:
    (folder / "audio.flac").write_bytes((folder / "audio.flac").read_bytes()[:100])


def lose_audio(folder: Path) -> None:
    (folder / "audio.flac").unlink()


def lose_meta(folder: Path) -> None:
    (folder / "meta.json").unlink()


@pytest.mark.parametrize("damage", [damage_meta, damage_of_another, damage_audio, lose_audio, lose_meta])
def test_s4_a_broken_folder_is_skipped_with_one_warning_and_mended_by_another_upload(
    folder: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    first = Library(Objects(folder))
    made, whole = add(first), add(first, recording(frequency_hz=300))
    damage(folder / "voices" / made.voice.voice_id)
    library = Library(Objects(folder))
    with caplog.at_level(logging.WARNING):
        library.refresh()
        library.refresh()
        assert library.voices() == [whole.voice]
        assert library.look_up(made.voice.voice_id) is None
    assert len(caplog.messages) == (0 if damage is lose_meta else 1)
    assert add(library).voice.voice_id == made.voice.voice_id
    assert library.find(made.voice.voice_id) is not None
    later = Library(Objects(folder))
    later.refresh()
    assert {voice.voice_id for voice in later.voices()} == {made.voice.voice_id, whole.voice.voice_id}
    assert later.clip(made.voice.voice_id).pcm.size == 4 * RATE_HZ


def test_a_recording_that_was_exchanged_is_found_out(library: Library, folder: Path) -> None:
    """Of the same length, so that a look at the folder doesn't show it."""
    made = add(library)
    path = folder / "voices" / made.voice.voice_id / "audio.flac"
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    with pytest.raises(VoiceBroken, match="has changed; upload it again"):
        library.reference(made.voice.voice_id)
    add(library)
    assert library.reference(made.voice.voice_id).samples.size == 4 * RATE_HZ


def test_what_killed_processes_began_is_cleared_after_an_hour(folder: Path) -> None:
    library = Library(Objects(folder))
    kept = add(library).voice.voice_id
    for name in ("audio.flac#1", "meta.json#12"):
        begun = folder / "voices" / kept / name
        begun.write_bytes(b"half")
        os.utime(begun, (1, 1))
    fresh = folder / "voices" / kept / "audio.flac#2"
    fresh.write_bytes(b"half")
    foreign = [
        folder / "notes#1",
        folder / "voices" / "mine" / "audio.flac",
        folder / "voices" / kept / "notes#a",
    ]
    for path in foreign:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"of somebody else")
        os.utime(path, (1, 1))
    orphan = folder / "voices" / ("v-" + "2" * 32) / "audio.flac"
    orphan.parent.mkdir()
    orphan.write_bytes(b"without a description")
    library.sweep()
    assert orphan.exists()
    os.utime(orphan, (1, 1))
    library.sweep()
    left = [folder / "voices" / kept / name for name in ("audio.flac", "audio.flac#2", "meta.json")]
    assert files(folder) == sorted(str(path.relative_to(folder)) for path in (*left, *foreign))


def test_v1_nothing_is_opened_by_path(library: Library, folder: Path) -> None:
    (folder.parent / "secret").mkdir()
    for text in ("../secret", "/etc/passwd", "..", ".", "", "v-", "voices", "a/b", "\0"):
        assert library.look_up(text) is None
        assert not library.remove(text)
    assert (folder.parent / "secret").exists()


def test_a_store_that_fails_says_so_without_a_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    library = Library(Objects(tmp_path / "file" / "below"))
    with pytest.raises(StoreFailed) as caught:
        add(library)
    assert str(tmp_path) not in str(caught.value)


def test_without_a_folder_voices_are_refused_and_none_is_there() -> None:
    library = Library(Objects(None))
    library.refresh()
    library.sweep()
    assert library.voices() == []
    with pytest.raises(StoreFailed, match="voices_dir"):
        add(library)
