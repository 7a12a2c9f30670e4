"""VoxCPM through its real loading code, on a tiny random checkpoint: against the library, and one stream at a time."""

import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

WHY = "the extra voxcpm isn't installed here; make test-engines has it"
pytest.importorskip("torch", reason=WHY)
if importlib.util.find_spec("voxcpm") is None:
    pytest.skip(WHY, allow_module_level=True)

import torch  # noqa: E402 - after what it may be skipped for

from engines.contract import EngineError, Request, Source  # noqa: E402
from engines.guards import Guarded  # noqa: E402
from engines.voxcpm import engine  # noqa: E402
from engines.voxcpm_model import VoxcpmModel  # noqa: E402
from engines.voxcpm_settings import DESIGN, VoxcpmOptions  # noqa: E402
from tests.engines.contract_suite import EngineContract  # noqa: E402
from tests.engines.speaking import finish, speak, step  # noqa: E402
from tests.engines.tiny_voxcpm import STEP_SAMPLES, change, make_checkpoint  # noqa: E402
from tests.engines.voxcpm_library import official  # noqa: E402

TEXT = "Good morning, everyone."
SHORT = VoxcpmOptions(max_len=8)


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    folder = make_checkpoint(tmp_path_factory.mktemp("voxcpm"))
    return Source(path=str(folder), settings={"steps_per_token": 1})


@pytest.fixture(scope="module")
def model(source: Source) -> Iterator[VoxcpmModel]:
    model = engine.load(source, "cpu")
    yield model
    model.unload()


@pytest.fixture(scope="module")
def library(source: Source, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return official(str(source.path), tmp_path_factory.mktemp("theirs"))


def request(text: str = TEXT, **changes: Any) -> Request:
    values: dict[str, Any] = {"seed": 7, "voice": DESIGN, "options": SHORT}
    return Request(text=text, language="en", **(values | changes))


def patched(model: VoxcpmModel) -> int:
    """Parts of the decoder that a stream has changed for itself: what it puts there is a plain function."""
    decoder = model._library.audio_vae.decoder
    forwards = [each.__dict__.get("forward") for each in decoder.modules()]
    return sum(each is not None and not hasattr(each, "__self__") for each in forwards)


class TestVoxcpm(EngineContract):
    engine = engine
    most_odd_chars: ClassVar[int] = 24
    guarded_texts: ClassVar[list[str]] = ["...", "x", "1次", "Huh?"]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def tiny(cls, source: Source) -> None:
        cls.source = source


# Against the library ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [TEXT, "stop", "One,\n two;  three."])
def test_steps_join_to_what_the_library_makes_in_one_go(model: VoxcpmModel, library: Any, text: str) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(7)
        theirs = library.generate(text=text, max_len=8, retry_badcase=False)
    ours = speak(model, request(text))
    assert [chunk.samples.size for chunk in ours.chunks] == [STEP_SAMPLES] * 8 + [0]
    np.testing.assert_allclose(ours.samples, theirs, atol=1e-5)


def test_options_reach_the_library(model: VoxcpmModel, library: Any) -> None:
    options = VoxcpmOptions(cfg_value=3.5, inference_timesteps=4, max_len=5, instruct="a calm voice")
    with torch.random.fork_rng():
        torch.manual_seed(7)
        theirs = library.generate(
            text=f"(a calm voice){TEXT}", cfg_value=3.5, inference_timesteps=4, max_len=5, retry_badcase=False
        )
    np.testing.assert_allclose(speak(model, request(options=options)).samples, theirs, atol=1e-5)


def test_the_first_step_is_160_ms(model: VoxcpmModel, source: Source) -> None:
    facts = engine.identify(source)
    stream = model.start(request(), None)
    first = step(model, stream)
    model.close(stream)
    assert first.samples.size == STEP_SAMPLES
    assert facts.step_s == 0.16
    assert facts.sample_rate_hz * facts.step_s == STEP_SAMPLES


def test_it_ends_where_the_network_says_so_but_not_before_min_len(source: Source, tmp_path: Path) -> None:
    model = ending(source, tmp_path)
    # The library looks at the end after its step, from the one whose number is over min_len.
    for least in (0, 2, 5):
        spoken = speak(model, request(options=VoxcpmOptions(min_len=least)))
        assert spoken.samples.size == (least + 2) * STEP_SAMPLES
    model.unload()


def ending(source: Source, folder: Path) -> VoxcpmModel:
    """Its network says at each step that it has said all."""
    shutil.copytree(str(source.path), folder, dirs_exist_ok=True)
    change(
        folder,
        stop_proj__weight=torch.zeros(32, 32),
        stop_proj__bias=torch.ones(32),
        stop_head__weight=torch.stack([torch.zeros(32), torch.ones(32)]),
    )
    return engine.load(Source(path=str(folder), settings=source.settings), "cpu")


# One at a time ----------------------------------------------------------------------------------------------------


def test_a_second_stream_is_refused_until_the_first_is_closed(model: VoxcpmModel) -> None:
    alone = speak(model, request()).samples
    first = model.start(request(), None)
    begun = step(model, first)
    with pytest.raises(EngineError, match="one segment at a time"):
        model.start(request("stop"), None)
    rest = finish(model, first)
    np.testing.assert_array_equal(np.concatenate([begun.samples, rest.samples]), alone)
    assert speak(model, request("stop")).samples.size


def test_there_are_never_two_generators(model: VoxcpmModel, monkeypatch: pytest.MonkeyPatch) -> None:
    alive, most = 0, 0
    theirs = model._library.generate_with_prompt_cache_streaming

    def counted(**arguments: Any) -> Iterator[Any]:
        nonlocal alive, most
        alive += 1
        most = max(most, alive)
        try:
            yield from theirs(**arguments)
        finally:
            alive -= 1

    monkeypatch.setattr(model._library, "generate_with_prompt_cache_streaming", counted)
    for steps in (0, 1, 3, 9):
        stream = model.start(request(), None)
        for _ in range(steps):
            step(model, stream)
        model.close(stream)
        assert alive == 0
    assert most == 1


def test_the_decoder_is_as_before_after_a_cancel_and_after_an_end(model: VoxcpmModel) -> None:
    assert patched(model) == 0
    stream = model.start(request(), None)
    step(model, stream)
    assert patched(model) > 0
    model.close(stream)
    assert patched(model) == 0
    speak(model, request())
    assert patched(model) == 0


def test_the_decoder_is_as_before_after_an_error(model: VoxcpmModel, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = speak(model, request()).samples
    stream = model.start(request(), None)
    step(model, stream)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(model._library.audio_vae, "decode", broken)
        with pytest.raises(RuntimeError, match="out of memory"):
            model.step([stream])
    assert patched(model) == 0
    (result,) = model.step([stream])
    assert isinstance(result, EngineError)
    np.testing.assert_array_equal(speak(model, request()).samples, fresh)


@pytest.mark.parametrize("steps", [1, 4])
def test_after_a_cancel_it_speaks_as_a_fresh_model_does(
    model: VoxcpmModel, source: Source, steps: int
) -> None:
    stream = model.start(request("something quite different and longer"), None)
    for _ in range(steps):
        step(model, stream)
    model.close(stream)
    fresh = engine.load(source, "cpu")
    np.testing.assert_array_equal(speak(model, request()).samples, speak(fresh, request()).samples)
    fresh.unload()


# Random states ----------------------------------------------------------------------------------------------------


def test_seeds_differ_and_repeat(model: VoxcpmModel) -> None:
    one, same, other = (speak(model, request(seed=seed)).samples for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 0


def test_what_others_draw_changes_nothing_and_they_see_nothing_of_it(model: VoxcpmModel) -> None:
    alone = speak(model, request()).samples
    stream = model.start(request(), None)
    pieces = []
    for seed in range(4):
        torch.manual_seed(seed)
        wanted = torch.rand(3)
        torch.manual_seed(seed)
        pieces.append(step(model, stream).samples)
        assert torch.equal(torch.rand(3), wanted)
    pieces.append(finish(model, stream).samples)
    np.testing.assert_array_equal(np.concatenate(pieces), alone)


# Caps and guards --------------------------------------------------------------------------------------------------


def test_s15_the_caps_are_the_engines_and_a_client_may_ask_for_more(
    model: VoxcpmModel, source: Source
) -> None:
    facts = engine.identify(source)
    assert (facts.max_chars, facts.max_sentences) == (80, 3)
    options = VoxcpmOptions(inference_timesteps=1)
    spoken = speak(model, request("One two three. " * 10, options=options))
    assert spoken.samples.size > 40 * STEP_SAMPLES


def test_a_text_that_the_networks_memory_cannot_hold_is_refused_with_a_reason(model: VoxcpmModel) -> None:
    stream = model.start(request("zyx " * 400, options=VoxcpmOptions()), None)
    (result,) = model.step([stream])
    assert isinstance(result, EngineError)
    assert "1024 is the most" in str(result)
    assert speak(model, request()).samples.size


def test_s18_a_collapse_is_an_error_even_if_some_of_it_has_been_heard(source: Source, tmp_path: Path) -> None:
    facts = engine.identify(source)
    assert facts.sampling, "what hasn't been heard yet may be taken again"
    model = ending(source, tmp_path)
    guarded = Guarded(model, facts, engine.info)
    text = "The train to the coast leaves at half past nine every day."
    with pytest.raises(EngineError, match="lost its text"):
        speak(guarded, request(text))
    assert guarded.counts.collapsed == 1
    assert patched(model) == 0
    model.unload()


def test_an_opening_bracket_is_read_and_is_no_instruction(model: VoxcpmModel) -> None:
    bracket, plain = (speak(model, request(text)).samples for text in ("(One) two.", "One, two."))
    np.testing.assert_array_equal(bracket, plain)


def test_no_bar_is_drawn(model: VoxcpmModel, capfd: pytest.CaptureFixture[str]) -> None:
    speak(model, request())
    assert capfd.readouterr() == ("", "")
