"""A checkpoint's name is that of its content."""

import hashlib
import os
from pathlib import Path

import pytest

from engines.digest import file_digest, folder_digest, sound_digest
from engines.recordings import RecordedVoice

HUGE_BYTES = 200 << 20
PART_BYTES = 4 << 20


def test_a_file_is_known_by_its_sha256(tmp_path: Path) -> None:
    file = tmp_path / "a.bin"
    file.write_bytes(b"weights")
    assert file_digest(file) == hashlib.sha256(b"weights").hexdigest()


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "a.bin"
    file.write_bytes(b"one")
    first = file_digest(file)
    file.write_bytes(b"two")
    os.utime(file, ns=(1, 1))
    assert file_digest(file) != first


@pytest.mark.parametrize("at_byte", [0, HUGE_BYTES // 2, HUGE_BYTES - PART_BYTES])
def test_a_huge_file_is_told_from_another_by_any_larger_part_of_it(tmp_path: Path, at_byte: int) -> None:
    digests = []
    for number in (0, 1):
        file = tmp_path / f"{number}.bin"
        with file.open("wb") as opened:
            opened.truncate(HUGE_BYTES)
            opened.seek(at_byte)
            opened.write(bytes([number]) * PART_BYTES)
        digests.append(file_digest(file))
    assert digests[0] != digests[1]


def test_a_folder_is_the_same_wherever_it_lies(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "inner").mkdir(parents=True)
        (tmp_path / name / "config.json").write_text("{}", "utf-8")
        (tmp_path / name / "inner" / "model.safetensors").write_bytes(b"weights")
        (tmp_path / name / "README.md").write_text(name, "utf-8")
    suffixes = {".json", ".safetensors"}
    one, two = (folder_digest(tmp_path / name, suffixes=suffixes) for name in ("one", "two"))
    assert one == two
    (tmp_path / "two" / "inner" / "model.safetensors").write_bytes(b"others")
    assert folder_digest(tmp_path / "two", suffixes=suffixes) != one


def test_whatever_shapes_the_sound_changes_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    weights, audio = folder / "model.safetensors", tmp_path / "anna.wav"
    weights.write_bytes(b"weights")
    audio.write_bytes(b"sound")

    def named(*, version: str = "1", text: str | None = None) -> str:
        voice = RecordedVoice("anna", audio, text)
        return sound_digest(folder, suffixes={".safetensors"}, shaping=[version], voices=[voice])

    names = [named(), named(version="2"), named(text="hello")]
    audio.write_bytes(b"another sound")
    names.append(named())
    weights.write_bytes(b"other weights")
    names.append(named())
    assert len(set(names)) == len(names)
    (folder / "notes.txt").write_text("of no matter")
    assert named() == names[-1]
