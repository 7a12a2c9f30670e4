"""What is made of a model's steps, heard from an engine whose lengths are arithmetic."""

import math
from collections.abc import Sequence
from typing import Any

import pytest

from bench.device import Device
from bench.speaker import Allowance, Speaker
from bench.texts import FIFTEEN_WORDS
from engines.contract import Chunk, EngineError, Request, Source
from engines.tone import ToneEngine, ToneModel

FOREVER = math.inf


class Counted:
    """A model that knows which streams are open, how many were stepped together, and fails when it is told to."""

    def __init__(self, model: ToneModel, *, fails_at_step: int | None = None) -> None:
        self._model = model
        self._fails_at_step = fails_at_step
        self.open: list[Any] = []
        self.batches: list[int] = []

    def start(self, request: Request, prompt: Any) -> Any:
        self.open.append(self._model.start(request, prompt))
        return self.open[-1]

    def step(self, streams: Sequence[Any]) -> Sequence[Chunk | EngineError]:
        self.batches.append(len(streams))
        if len(self.batches) == self._fails_at_step:
            return [EngineError("it can't any more") for _ in streams]
        return self._model.step(streams)

    def close(self, stream: Any) -> None:
        self._model.close(stream)
        if stream in self.open:
            self.open.remove(stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def speaker(*, fails_at_step: int | None = None, **settings: Any) -> tuple[Speaker, Counted]:
    engine = ToneEngine()
    source = Source(settings={"step_ms": 100, **settings})
    counted = Counted(engine.load(source, "cpu"), fails_at_step=fails_at_step)
    return Speaker("tone", counted, engine.identify(source), engine.info, Device("cpu")), counted


def test_the_cost_is_that_of_whole_utterances() -> None:
    measured, _ = speaker()
    row = measured.cost(Allowance(FOREVER, 2))
    letters = sum(len(word) + 1 for text in FIFTEEN_WORDS[:2] for word in text.split())
    assert row.raw["audio_s"] == pytest.approx(0.06 * letters)
    assert row.raw["cost"] > 0


def test_without_time_a_figure_has_one_round_all_the_same() -> None:
    measured, counted = speaker()
    assert measured.first_audio(Allowance(0, 50)).raw["starts"] == 1
    assert 0 < measured.cost(Allowance(0, 50)).raw["audio_s"] < 1
    assert measured.throughput(Allowance(0, 50)).raw.keys() == {"at_1", "gain"}
    assert "4, 16" in measured.throughput(Allowance(0, 50)).measured
    assert not counted.open


@pytest.mark.parametrize(
    ("settings", "counts", "largest"),
    [
        ({}, {1, 4, 16}, 1),
        ({"max_open": 1}, {1}, 1),
        ({"max_open": 3}, {1, 3}, 1),
        ({"max_batch": 8}, {1, 4, 16}, 8),
        ({"max_batch": 8, "max_open": 8}, {1, 4, 8}, 8),
    ],
)
def test_as_many_speak_at_once_as_the_engine_takes(
    settings: dict[str, int], counts: set[int], largest: int
) -> None:
    measured, counted = speaker(**settings)
    row = measured.throughput(Allowance(FOREVER, 2))
    assert row.raw.keys() == {"gain", *(f"at_{count}" for count in counts)}
    assert max(counted.batches) == largest


def test_who_ends_is_followed_by_another() -> None:
    measured, counted = speaker(step_ms=None)
    started = next(measured.seeds)
    measured.throughput(Allowance(FOREVER, 3))
    assert next(measured.seeds) - started > 3 * (1 + 4 + 16)
    assert not counted.open


@pytest.mark.parametrize("figure", ["first_audio", "cost", "throughput", "cancel"])
def test_a_figure_that_fails_leaves_no_stream_open(figure: str) -> None:
    measured, counted = speaker(fails_at_step=2)
    with pytest.raises(EngineError, match="any more"):
        getattr(measured, figure)(Allowance(FOREVER, 50))
    assert not counted.open


def test_a_cancel_closes_a_stream_that_speaks() -> None:
    measured, counted = speaker()
    row = measured.cancel(Allowance(FOREVER, 3))
    assert set(row.raw) == {"p50_ms", "p95_ms", "step_p95_ms"}
    assert len(counted.batches) == 3 * 2
    assert not counted.open
