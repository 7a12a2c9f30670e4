"""A process that is killed in the middle of an upload or of a prompt leaves no half of either."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.voices.recordings import RATE_HZ
from tests.voices.writer import MADE_BY, add, prompt
from voices.library import Library
from voices.objects import Objects
from voices.prompts import StoredPrompts
from voices.reference import Clone
from voices.voice import voice_id_of

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("KILLS", "20"))
"""`make soak` asks for more."""
MOST_KILLS = 10 * KILLS
"""Until one has hit a write: on a fast disk few do."""


def kill_in_the_middle(folder: Path, what: str, after_s: float) -> None:
    command = [sys.executable, "-m", "tests.voices.writer", str(folder), what]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(after_s)
        process.send_signal(signal.SIGKILL)


def halves(folder: Path) -> int:
    """Files that were being written, and recordings that nothing describes yet."""
    begun = len(list(folder.rglob("*#*")))
    return begun + sum(not (audio.parent / "meta.json").exists() for audio in folder.rglob("audio.flac"))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("what", "longest_s"), [("uploads", 0.03), ("whole uploads", 0.5)])
def test_every_voice_that_is_there_after_a_kill_is_whole(tmp_path: Path, what: str, longest_s: float) -> None:
    chance = random.Random(5)
    found = voices = 0
    least, most = (KILLS, MOST_KILLS) if what == "uploads" else (KILLS // 2, KILLS // 2)
    for number in range(most):
        if number >= least and found:
            break
        kill_in_the_middle(tmp_path, what, chance.uniform(0, longest_s))
        found += halves(tmp_path)
        library = Library(Objects(tmp_path))
        library.refresh()
        for voice in library.voices():
            clip = library.clip(voice.voice_id)
            assert voice.voice_id == voice_id_of(voice.traits, clip, None)
            assert clip.pcm.size == 2 * RATE_HZ
            voices += 1
    assert voices
    assert found or what != "uploads", "no kill has hit a write"
    # What was cut off is made good by the next upload.
    library = Library(Objects(tmp_path))
    made = [add(library, number).voice.voice_id for number in range(3)]
    library.refresh()
    assert sorted(voice.voice_id for voice in library.voices()) == sorted(made)


@pytest.mark.timeout(600)
def test_a_prompt_that_is_there_after_a_kill_is_whole(tmp_path: Path) -> None:
    chance = random.Random(6)
    allowed = [prompt(number) for number in range(2)]
    library = Library(Objects(tmp_path))
    clone = Clone(add(library, 0).voice.voice_id, "audio")
    found = 0
    for number in range(MOST_KILLS):
        if number >= KILLS and found:
            break
        kill_in_the_middle(tmp_path, "prompts", chance.uniform(0, 0.03))
        found += halves(tmp_path)
        kept = StoredPrompts(library, **MADE_BY).stored(clone)
        assert kept is None or kept in allowed
    assert found, "no kill has hit a write"
