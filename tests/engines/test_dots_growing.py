"""dots.tts that takes text while it speaks, through its real loading code, on a tiny random checkpoint."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

WHY = "the extra dots isn't installed here; make test-engines has it"
pytest.importorskip("torch", reason=WHY)
pytest.importorskip("torchdiffeq", reason=WHY)

from engines.contract import EngineError, Request, Source  # noqa: E402 - after what it may be skipped for
from engines.dots import engine  # noqa: E402
from engines.dots_model import DotsModel, DotsStream  # noqa: E402
from engines.torch_random import RandomState  # noqa: E402
from tests.engines.contract_suite import EngineContract  # noqa: E402
from tests.engines.speaking import finish, speak, step  # noqa: E402
from tests.engines.tiny_dots import make_checkpoint  # noqa: E402
from voices.reference import CloneMode, Reference  # noqa: E402

SETTINGS = {"optimize": False, "steps": 1}
TEXT = "She sells sea shells by the sea shore every day."
MODES: tuple[CloneMode, ...] = ("audio", "audio+text")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("dots"), takes_text_while_it_speaks=True)


@pytest.fixture(scope="module")
def model(folder: Path) -> Iterator[DotsModel]:
    model = engine.load(Source(path=str(folder), settings=SETTINGS), "cpu")
    yield model
    model.unload()


def request(text: str = TEXT, **changes: Any) -> Request:
    values: dict[str, Any] = {"language": "en", "voice": "any", "seed": 7}
    return Request(text=text, **(values | changes))


class TestContract(EngineContract):
    engine = engine
    most_odd_chars: ClassVar[int] = 40
    guarded_texts: ClassVar[list[str]] = ["Huh?", "x"]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _with_checkpoint(cls, folder: Path) -> None:
        cls.source = Source(path=str(folder), settings=SETTINGS)


def test_only_a_checkpoint_that_was_made_for_it_grows(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert engine.identify(Source(path=str(folder), settings=SETTINGS)).grows
    plain = make_checkpoint(tmp_path_factory.mktemp("plain"))
    assert not engine.identify(Source(path=str(plain), settings=SETTINGS)).grows


def said(model: DotsModel, stream: DotsStream) -> list[np.ndarray]:
    """Until it wants text."""
    pieces = []
    while True:
        chunk = step(model, stream)
        pieces.append(chunk.samples)
        if chunk.wants_text:
            return pieces


@pytest.mark.parametrize("prompted", [None, *MODES])
def test_words_sound_the_same_one_by_one_and_all_at_once(
    model: DotsModel, prompted: CloneMode | None
) -> None:
    noise = np.random.default_rng(1).standard_normal(36000).astype(np.float32) * 0.1
    clip = Reference(noise, 24000, "The train to the coast leaves at half past nine.", "en")
    prompt = None if prompted is None else model.restore(model.prepare(clip, prompted))
    whole = speak(model, request(), prompt).samples
    words = TEXT.split(" ")
    stream = model.start(request(words[0] + " ", last=False), prompt)
    pieces = said(model, stream)
    for word in words[1:-1]:
        model.extend(stream, word + " ", last=False)
        pieces += said(model, stream)
    model.extend(stream, words[-1], last=True)
    pieces.append(finish(model, stream).samples)
    np.testing.assert_array_equal(np.concatenate(pieces), whole)


def test_a_token_at_a_time_is_what_the_library_makes_of_them(model: DotsModel) -> None:
    runtime = model._runtime
    tokens = runtime.model.tokenizer.encode(TEXT, add_special_tokens=False)
    with RandomState(7):
        session = runtime.start_double_streaming(num_steps=1)
        pieces = [session.push_text_token(token) for token in tokens]
        pieces += list(session.finish_text())
    theirs = np.concatenate([piece.flatten().numpy() for piece in pieces if piece is not None])
    np.testing.assert_array_equal(speak(model, request()).samples, theirs)


def test_an_unfinished_word_is_not_spoken(model: DotsModel) -> None:
    stream = model.start(request("She sells sea sh", last=False), None)
    before = np.concatenate(said(model, stream))
    model.extend(stream, "ell", last=False)
    assert not np.concatenate(said(model, stream)).size
    model.extend(stream, "s by the sea shore every day.", last=True)
    rest = finish(model, stream).samples
    np.testing.assert_array_equal(np.concatenate([before, rest]), speak(model, request()).samples)


def test_audio_comes_before_the_text_is_complete(model: DotsModel) -> None:
    stream = model.start(request("She sells sea shells by ", last=False), None)
    assert np.concatenate(said(model, stream)).size >= 7680
    model.close(stream)


def test_a_closed_stream_takes_no_text(model: DotsModel) -> None:
    stream = model.start(request("She sells ", last=False), None)
    said(model, stream)
    model.close(stream)
    with pytest.raises(EngineError):
        model.extend(stream, "more", last=True)
    assert not model._open


def test_s24_what_is_computed_of_a_voice_is_not_kept_by_its_file(model: DotsModel) -> None:
    noise = np.random.default_rng(2).standard_normal(24000).astype(np.float32) * 0.1
    for mode in MODES:
        clip = Reference(noise, 24000, "The train to the coast.", "en")
        speak(model, request("Stop!"), model.restore(model.prepare(clip, mode)))
    assert not hasattr(model._runtime, "_double_streaming_prompt_g_cond_cache")
    assert not model._runtime.model._prompt_feature_cache
