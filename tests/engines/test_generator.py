from collections.abc import Iterator

import numpy as np
import pytest

from engines.contract import EngineError, Request
from engines.generator import GeneratorModel
from tests.engines.speaking import finish, speak, step
from voices.reference import Reference


def count(request: Request) -> Iterator[np.ndarray]:
    for index in range(len(request.text)):
        yield np.full(10, index / 10, np.float32)


def request(text: str = "abc") -> Request:
    return Request(text=text, language="en", voice="v")


def test_each_piece_is_a_step_and_the_end_says_so() -> None:
    chunks = speak(GeneratorModel(count), request()).chunks
    assert [(chunk.samples.size, chunk.last) for chunk in chunks] == [
        (10, False),
        (10, False),
        (10, False),
        (0, True),
    ]


def test_nothing_runs_before_the_first_step() -> None:
    ran = []

    def note(request: Request) -> Iterator[np.ndarray]:
        ran.append(request.text)
        yield np.zeros(1, np.float32)

    model = GeneratorModel(note)
    stream = model.start(request(), None)
    assert not ran
    step(model, stream)
    assert ran == ["abc"]


def test_closing_a_stream_closes_its_generator() -> None:
    closed = []

    def guarded(request: Request) -> Iterator[np.ndarray]:
        try:
            while True:
                yield np.zeros(1, np.float32)
        finally:
            closed.append(request.text)

    model = GeneratorModel(guarded)
    stream = model.start(request(), None)
    step(model, stream)
    model.close(stream)
    model.close(stream)
    assert closed == ["abc"]
    (after,) = model.step([stream])
    assert isinstance(after, EngineError)


def test_streams_interleave() -> None:
    model = GeneratorModel(count)
    one, other = model.start(request("ab"), None), model.start(request("abcd"), None)
    model.step([one, other])
    assert finish(model, one).samples.size == 10
    assert finish(model, other).samples.size == 30


def test_pieces_of_other_shapes_and_types_become_samples() -> None:
    model = GeneratorModel(lambda _: iter([np.zeros((1, 1, 7), np.float32), np.asarray([1, 2, 3])]))
    chunks = speak(model, request()).chunks
    assert [chunk.samples.shape for chunk in chunks[:2]] == [(7,), (3,)]
    assert all(chunk.samples.dtype == np.float32 for chunk in chunks)


def test_an_engine_error_in_the_generator_ends_its_stream_alone() -> None:
    def fails(request: Request) -> Iterator[np.ndarray]:
        yield np.zeros(1, np.float32)
        if request.text == "bad":
            raise EngineError("no")

    model = GeneratorModel(fails)
    good, bad = model.start(request(), None), model.start(request("bad"), None)
    model.step([good, bad])
    results = model.step([good, bad])
    assert [type(result).__name__ for result in results] == ["Chunk", "EngineError"]


def test_it_does_not_clone_or_grow() -> None:
    model = GeneratorModel(count)
    with pytest.raises(EngineError):
        model.prepare(Reference(np.zeros(1, np.float32), 16000, None, None), "audio")
    with pytest.raises(EngineError):
        model.restore(b"")
    with pytest.raises(EngineError):
        model.extend(model.start(request(), None), "more", last=True)


def test_unloading_calls_what_it_was_given() -> None:
    unloaded = []
    GeneratorModel(count, unload=lambda: unloaded.append(True)).unload()
    assert unloaded == [True]
