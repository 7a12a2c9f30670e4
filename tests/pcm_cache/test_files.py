import os
import time
from pathlib import Path

import pytest

from pcm_cache.entry import BadEntry, encode
from pcm_cache.files import Folder
from tests.pcm_cache.clips import clip, digest


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path / "clips")
    folder.prepare()
    return folder


def write(folder: Folder, number: int, samples: int = 800) -> int:
    return folder.write(digest(number), encode(digest(number), clip(samples)))


def files(folder: Folder) -> list[Path]:
    return sorted(path for path in folder.path.rglob("*") if path.is_file())


def test_what_is_written_can_be_read_also_by_the_next_process(folder: Folder) -> None:
    write(folder, 1)
    read = Folder(folder.path).read(digest(1))
    assert read is not None
    assert read.samples.tobytes() == clip().samples.tobytes()


def test_what_is_not_there_is_none(folder: Folder) -> None:
    assert folder.read(digest(1)) is None


def test_the_first_stored_stays_and_nothing_else_is_left(folder: Folder) -> None:
    assert write(folder, 1, samples=800) == write(folder, 1, samples=900)
    read = folder.read(digest(1))
    assert read is not None
    assert len(read.samples) == 800
    assert len(files(folder)) == 1


def test_a_short_file_is_a_bad_entry_and_gone(folder: Folder) -> None:
    write(folder, 1)
    [path] = files(folder)
    os.truncate(path, 1000)
    with pytest.raises(BadEntry):
        folder.read(digest(1))
    assert files(folder) == []
    assert folder.read(digest(1)) is None


def test_the_scan_lists_by_last_use_and_by_the_bytes_that_are_there(folder: Folder) -> None:
    for number in (1, 2, 3):
        write(folder, number, samples=number * 100)
    now_s = time.time()
    for number, age_s in ((1, 10), (2, 30), (3, 20)):
        os.utime(folder.path / "00" / f"{digest(number)}.clip", (now_s, now_s - age_s))
    assert [found.digest for found in folder.scan()] == [digest(2), digest(3), digest(1)]
    folder.touch(digest(2))
    assert [found.digest for found in folder.scan()] == [digest(3), digest(1), digest(2)]
    assert sum(found.bytes for found in folder.scan()) == sum(path.stat().st_size for path in files(folder))


def test_the_scan_removes_what_a_killed_writer_left_and_nothing_that_is_being_written(folder: Folder) -> None:
    write(folder, 1)
    old, new = folder.path / "00" / "aa.tmp", folder.path / "00" / "bb.tmp"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, time.time() - 120))
    assert len(folder.scan()) == 1
    assert (old.exists(), new.exists()) == (False, True)


def test_strange_files_and_links_are_left_alone(folder: Folder, tmp_path: Path) -> None:
    (folder.path / "00").mkdir()
    (folder.path / "readme").write_text("mine")
    (folder.path / "00" / "notes.clip").write_text("mine")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / f"{digest(5)}.clip").write_bytes(b"x")
    (folder.path / "01").symlink_to(outside)
    assert folder.scan() == []
    assert (folder.path / "00" / "notes.clip").exists()


def test_only_the_owner_can_read_what_was_said(folder: Folder) -> None:
    write(folder, 1)
    for path in (folder.path, folder.path / "00", *files(folder)):
        assert path.stat().st_mode & 0o077 == 0


def test_a_folder_that_cannot_be_written_to_says_so_and_keeps_nothing(folder: Folder) -> None:
    (folder.path / "00").write_text("a file where a folder should be")
    with pytest.raises(OSError, match=r"exists|directory"):
        write(folder, 1)
    assert len(files(folder)) == 1


def test_removing_twice_is_no_error(folder: Folder) -> None:
    write(folder, 1)
    folder.remove(digest(1))
    folder.remove(digest(1))
    assert files(folder) == []
