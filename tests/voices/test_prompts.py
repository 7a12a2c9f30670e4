"""S23, S24: prompts are computed once for a checkpoint, and what is found is what was kept."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.voices.recordings import recording
from voices.errors import VoiceMissing
from voices.library import Library
from voices.making import Upload, make_voice
from voices.objects import Objects
from voices.prompts import StoredPrompts
from voices.reading import Bounds
from voices.reference import Clone, CloneMode
from voices.voice import Traits

MADE_BY = {"engine": "pocket", "version": "4.1", "checkpoint": "abc"}
PROMPT = json.dumps({"codes": [1, 2, 3]}).encode()


@pytest.fixture
def clone(library: Library) -> Clone:
    upload = Upload(audio=io.BytesIO(recording()), name=None, traits=Traits(transcript="one two three"))
    return Clone(make_voice(library, upload, Bounds(), now_s=0.0).voice.voice_id, "audio")


def test_what_was_kept_is_found_by_another_process(library: Library, folder: Path, clone: Clone) -> None:
    prompts = StoredPrompts(library, **MADE_BY)
    assert prompts.stored(clone) is None
    prompts.keep(clone, PROMPT)
    assert StoredPrompts(Library(Objects(folder)), **MADE_BY).stored(clone) == PROMPT


@pytest.mark.parametrize(("name", "other"), [("engine", "qwen"), ("version", "4.2"), ("checkpoint", "abd")])
def test_checkpoints_coexist(library: Library, clone: Clone, name: str, other: str) -> None:
    StoredPrompts(library, **MADE_BY).keep(clone, PROMPT)
    assert StoredPrompts(library, **{**MADE_BY, name: other}).stored(clone) is None


@pytest.mark.parametrize("mode", ["audio", "audio+text"])
def test_modes_coexist(library: Library, clone: Clone, mode: CloneMode) -> None:
    prompts = StoredPrompts(library, **MADE_BY)
    prompts.keep(clone, PROMPT)
    found = prompts.stored(Clone(clone.voice_id, mode))
    assert found == (PROMPT if mode == "audio" else None)


DAMAGES: list[Callable[[bytes], bytes]] = [
    lambda data: data[:-1],
    lambda data: data[:10],
    lambda _: b"",
    lambda data: b"x" + data[1:],
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_one_is_none(
    library: Library, folder: Path, clone: Clone, damage: Callable[[bytes], bytes]
) -> None:
    prompts = StoredPrompts(library, **MADE_BY)
    prompts.keep(clone, PROMPT)
    (path,) = (folder / "prompts").rglob("*-*/*")
    path.write_bytes(damage(path.read_bytes()))
    assert prompts.stored(clone) is None
    prompts.keep(clone, PROMPT)
    assert prompts.stored(clone) == PROMPT


def test_a_store_that_fails_costs_no_voice(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    prompts = StoredPrompts(Library(Objects(tmp_path / "file" / "below")), **MADE_BY)
    clone = Clone("v-" + "0" * 32, "audio")
    assert prompts.stored(clone) is None
    prompts.keep(clone, PROMPT)


def test_a_reference_of_a_voice_that_is_gone_is_an_error(library: Library, clone: Clone) -> None:
    prompts = StoredPrompts(library, **MADE_BY)
    assert prompts.reference(clone).transcript == "one two three"
    library.remove(clone.voice_id)
    with pytest.raises(VoiceMissing):
        prompts.reference(clone)
