"""Unloading Qwen3-TTS gives its memory back: of a tiny checkpoint all there is to see is that nothing stays."""

import gc
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest

from tests.residency.giving_back import CYCLES, assert_nothing_stays, cycles

WHY = "the extra qwen isn't installed here; make test-engines has it"
pytest.importorskip("torch", reason=WHY)
pytest.importorskip("transformers", reason=WHY)

from engines.contract import EngineError, EngineUnavailable, Source  # noqa: E402 - after what it may be skipped for
from engines.qwen import engine  # noqa: E402
from tests.engines.qwen_library import LONG, base_source, library_of, recording, request  # noqa: E402
from tests.engines.speaking import speak, step  # noqa: E402

pytestmark = [
    pytest.mark.timeout(300 + 20 * CYCLES),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc"),
]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    return base_source(tmp_path_factory.mktemp("qwen"), threads=1)


@pytest.fixture(scope="module")
def table(source: Source) -> dict[str, Any]:
    return {"path": source.path, "device": "cpu", **source.settings}


def test_s28_nothing_of_the_library_is_referred_to_after_an_unload(source: Source) -> None:
    model = engine.load(source, "cpu")
    prompt = model.restore(model.prepare(recording(1), "audio"))
    stream = model.start(request(LONG, "clip"), prompt)
    step(model, stream)
    model.close(stream)
    speak(model, request())
    library = library_of(model).model
    parts = [weakref.ref(part) for part in (library, library.talker, library.speech_tokenizer.model)]
    del library
    model.unload()
    gc.collect()
    assert [part() for part in parts] == [None] * 3
    with pytest.raises(EngineError, match="after its unload"):
        model.start(request(), None)


def test_nothing_stays_of_one_that_could_not_be_loaded(source: Source, tmp_path: Path) -> None:
    (tmp_path / "anna.wav").write_bytes(b"no recording")
    broken = Source(path=source.path, settings={"voices": {"anna": str(tmp_path / "anna.wav")}, "threads": 2})
    import torch

    before = torch.get_num_threads()
    with pytest.raises(EngineUnavailable):
        engine.load(broken, "cpu")
    assert torch.get_num_threads() == before


def test_s28_memory_stays_flat_over_loads_and_unloads(table: dict[str, Any]) -> None:
    assert_nothing_stays(cycles("qwen", "inline", table))
