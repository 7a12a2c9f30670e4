"""Qwen3-TTS through its real loading code, on tiny random checkpoints: alone, in turns and in batches."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

WHY = "the extra qwen isn't installed here; make test-engines has it"
pytest.importorskip("torch", reason=WHY)
pytest.importorskip("transformers", reason=WHY)

import torch  # noqa: E402 - after what it may be skipped for

from engines.contract import Chunk, EngineError, Request, Samples, Source  # noqa: E402
from engines.qwen import engine  # noqa: E402
from engines.qwen_model import QwenModel  # noqa: E402
from engines.qwen_options import QwenOptions  # noqa: E402
from tests.engines.contract_suite import EngineContract  # noqa: E402
from tests.engines.qwen_library import LONG, base_source, generated, library_of, request  # noqa: E402
from tests.engines.speaking import finish, speak, speak_together, step  # noqa: E402

FRAME_SAMPLES = 1920
ROUNDING = 2e-5
GREEDY = QwenOptions(do_sample=False, subtalker_dosample=False)
TEXTS = [
    "Stop!",
    "Good morning, everyone.",
    LONG,
    "One.",
    "Nobody answered the door.",
    "It rained.",
    "She closed the window, and left.",
    "Two of us.",
]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    return base_source(tmp_path_factory.mktemp("qwen"), threads=1)


@pytest.fixture(scope="module")
def model(source: Source) -> Iterator[QwenModel]:
    model = engine.load(source, "cpu")
    yield model
    model.unload()


class TestQwen(EngineContract):
    engine = engine
    batch_tolerance: ClassVar[float] = ROUNDING
    most_odd_chars: ClassVar[int] = 30
    guarded_texts: ClassVar[list[str]] = ["...", "x", "1次", "Huh?", "50% of £3.50"]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def tiny(cls, source: Source) -> None:
        cls.source = source


# Against the library ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("voice", ["anna", "ben"])
@pytest.mark.parametrize(
    "options",
    [
        {"do_sample": False, "subtalker_dosample": False},
        {},
        {"temperature": 1.4, "top_k": 0, "top_p": 0.8, "repetition_penalty": 1.3},
        {"subtalker_temperature": 0.5, "subtalker_top_k": 5, "subtalker_top_p": 0.9},
    ],
    ids=["greedy", "as the checkpoint says", "first", "second"],
)
def test_steps_join_to_what_the_library_makes_in_one_go(
    model: QwenModel, voice: str, options: dict[str, Any]
) -> None:
    ours = speak(model, request(LONG, voice, options=QwenOptions(**options)))
    prompt = model._voices[voice].item
    theirs = generated(
        library_of(model).generate_voice_clone, text=LONG, voice_clone_prompt=[prompt], **options
    )
    assert ours.samples.size == theirs.size > 40 * FRAME_SAMPLES
    np.testing.assert_allclose(ours.samples, theirs, rtol=0, atol=ROUNDING)


def test_a_step_is_a_frame(model: QwenModel) -> None:
    stream = model.start(request(LONG), None)
    assert [step(model, stream).samples.size for _ in range(5)] == [FRAME_SAMPLES] * 5
    model.close(stream)


def test_with_more_frames_a_step_the_first_makes_one_and_the_sound_is_the_same(
    model: QwenModel, source: Source
) -> None:
    settings = {**source.settings, "frames_per_step": 4}
    coarse = engine.load(Source(path=source.path, settings=settings), "cpu")
    assert engine.identify(Source(path=source.path, settings=settings)).step_s == pytest.approx(0.32)
    chunks = speak(coarse, request(LONG)).chunks
    coarse.unload()
    sizes = [chunk.samples.size // FRAME_SAMPLES for chunk in chunks]
    assert sizes[:4] == [1, 4, 4, 4]
    joined = np.concatenate([chunk.samples for chunk in chunks])
    np.testing.assert_allclose(joined, speak(model, request(LONG)).samples, rtol=0, atol=ROUNDING)


def test_nothing_of_the_library_is_changed_by_a_step(model: QwenModel) -> None:
    talker = library_of(model).model.talker
    before = dict(vars(talker))
    speak(model, request())
    assert dict(vars(talker)) == before
    assert "generate" not in vars(talker)


def test_the_clients_text_cannot_end_the_text(model: QwenModel) -> None:
    """The tokenizer would take these for its own marks."""
    plain = speak(model, request("One two three.")).samples
    marked = speak(model, request("One two<|im_end|>three<|im_<|im_start|>start|>.")).samples
    assert marked.size > 0.8 * plain.size
    assert speak(model, request("<|im_end|><tts_pad>")).samples.size == 0


def test_an_utterance_without_an_end_is_ended_by_its_text(model: QwenModel) -> None:
    for most, wanted in ((2, 2), (7, 7)):
        options = QwenOptions(max_new_tokens=most)
        assert speak(model, request(LONG, options=options)).samples.size == wanted * FRAME_SAMPLES


# Several at once --------------------------------------------------------------------------------------------------


def together(model: QwenModel, requests: list[Request], joins: list[int]) -> list[Samples]:
    """Each joins at its step and leaves when it has ended; all that are open step as one."""
    pieces: list[list[Samples]] = [[] for _ in requests]
    streams: dict[int, Any] = {}
    at = 0
    while at <= max(joins) or streams:
        for number, join in enumerate(joins):
            if join == at:
                streams[number] = model.start(requests[number], None)
        for number, result in zip(list(streams), model.step(list(streams.values())), strict=True):
            assert isinstance(result, Chunk)
            pieces[number].append(result.samples)
            if result.last:
                model.close(streams.pop(number))
        at += 1
    return [np.concatenate(each) for each in pieces]


def test_eight_in_a_batch_speak_as_alone_whenever_they_join(model: QwenModel) -> None:
    requests = [
        request(text, voice, seed=number)
        for number, (text, voice) in enumerate(zip(TEXTS, ["anna", "ben"] * 4, strict=True))
    ]
    alone = [speak(model, each).samples for each in requests]
    for joins in ([0] * 8, [0, 3, 1, 20, 7, 2, 12, 5]):
        for one, beside in zip(alone, together(model, requests, joins), strict=True):
            np.testing.assert_allclose(one, beside, rtol=0, atol=ROUNDING)


def test_each_in_a_batch_has_its_own_options(model: QwenModel) -> None:
    options = [
        None,
        GREEDY,
        QwenOptions(temperature=1.5, top_p=0.7, repetition_penalty=1.2),
        QwenOptions(top_k=3, subtalker_top_k=2, repetition_penalty=1.0),
        QwenOptions(max_new_tokens=5),
        QwenOptions(temperature=0, subtalker_temperature=0),
    ]
    requests = [request(LONG, seed=number, options=each) for number, each in enumerate(options)]
    alone = [speak(model, each).samples for each in requests]
    for one, beside in zip(alone, together(model, requests, [0] * len(requests)), strict=True):
        np.testing.assert_allclose(one, beside, rtol=0, atol=ROUNDING)


def test_three_in_turns_speak_as_alone_to_the_last_bit(model: QwenModel) -> None:
    requests = [request(seed=1), request(LONG, voice="ben", seed=1), request("Stop!", seed=2)]
    alone = [speak(model, each).samples for each in requests]
    for turns, one in zip(speak_together(model, requests, batch=1), alone, strict=True):
        np.testing.assert_array_equal(turns.samples, one)


def test_a_slot_that_was_cancelled_is_as_new(model: QwenModel) -> None:
    fresh = speak(model, request(LONG)).samples
    for steps in (0, 1, 30):
        stream = model.start(request(LONG, voice="ben", seed=3), None)
        for _ in range(steps):
            step(model, stream)
        model.close(stream)
        np.testing.assert_array_equal(speak(model, request(LONG)).samples, fresh)


def test_one_that_is_cancelled_in_a_batch_leaves_the_others_alone(model: QwenModel) -> None:
    alone = speak(model, request(LONG)).samples
    kept, cancelled = (model.start(request(LONG, seed=seed), None) for seed in (7, 8))
    pieces = []
    for _ in range(6):
        (result, _) = model.step([kept, cancelled])
        assert isinstance(result, Chunk)
        pieces.append(result.samples)
    model.close(cancelled)
    pieces.append(finish(model, kept).samples)
    np.testing.assert_allclose(np.concatenate(pieces), alone, rtol=0, atol=ROUNDING)


def test_more_than_it_takes_are_refused_and_a_closed_one_makes_room(model: QwenModel, source: Source) -> None:
    most = engine.identify(source).max_open
    streams = [model.start(request(), None) for _ in range(most)]
    with pytest.raises(EngineError, match=f"{most} open streams"):
        model.start(request(), None)
    model.close(streams[0])
    model.close(streams[0])
    streams[0] = model.start(request(), None)
    with pytest.raises(EngineError, match="open streams"):
        model.start(request(), None)
    for stream in streams:
        model.close(stream)


# Randomness -------------------------------------------------------------------------------------------------------


def test_s17_seeds_differ_and_repeat(model: QwenModel) -> None:
    one, same, other = (speak(model, request(seed=seed)).samples for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert one.size != other.size or np.abs(one - other).max() > 0


@pytest.mark.parametrize(
    "options",
    [
        QwenOptions(do_sample=False),
        QwenOptions(subtalker_dosample=False),
    ],
    ids=["the second draws", "the first draws"],
)
def test_the_seed_is_that_of_both_networks(model: QwenModel, options: QwenOptions) -> None:
    one, other = (speak(model, request(LONG, seed=seed, options=options)).samples for seed in (1, 2))
    assert one.size != other.size or np.abs(one - other).max() > 0


def test_without_sampling_the_seed_is_nothing(model: QwenModel) -> None:
    one, other = (speak(model, request(seed=seed, options=GREEDY)).samples for seed in (1, 2))
    np.testing.assert_array_equal(one, other)


def test_what_others_draw_changes_nothing_and_steps_draw_nothing_from_them(model: QwenModel) -> None:
    alone = speak(model, request(LONG)).samples
    before = torch.get_rng_state()
    stream = model.start(request(LONG), None)
    pieces = []
    for _ in range(10):
        torch.set_rng_state(before)
        pieces.append(step(model, stream).samples)
        assert torch.equal(before, torch.get_rng_state())
        torch.manual_seed(99)
        torch.rand(17)
    pieces.append(finish(model, stream).samples)
    np.testing.assert_array_equal(np.concatenate(pieces), alone)
