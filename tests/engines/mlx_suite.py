"""What every engine on MLX must keep beside the contract: its clones, its memory."""

import gc
from collections.abc import Mapping
from typing import Any, ClassVar

import mlx.core as mx
import numpy as np
import pytest
import soundfile

from engines.contract import EngineError, Model, Request, Source
from engines.mlx_streams import MlxModel, MlxPrompt
from tests.engines.contract_suite import EngineContract
from tests.engines.speaking import finish, speak, step
from voices.reference import CloneMode, Reference

SHORT = {"frames_per_token": 0.4, "spare_frames": 3}
"""Of a tokenizer of bytes: 40 ms and more a letter."""
METAL = {"cache_limit_bytes": 8 << 30}
"""As on a Mac: nothing that was freed is ever given back by itself."""
OWN_BYTES = 16
"""MLX's own, whatever is unloaded: a thread's random state, of 8 bytes or, in a buffer that was another's, 16."""
TEXT = "Good morning, everyone."


def recording(number: int, *, rate_hz: int = 24000, transcript: str | None = None) -> Reference:
    """A second of another pitch for each number."""
    noise = np.random.default_rng(number).standard_normal(rate_hz)
    sine = np.sin(2 * np.pi * 150 * 4**number * np.arange(rate_hz) / rate_hz)
    return Reference((0.3 * sine + 0.05 * noise).astype(np.float32), rate_hz, transcript, None)


def write(file: Any, reference: Reference) -> str:
    soundfile.write(file, reference.samples, reference.sample_rate_hz)
    return str(file)


def baseline() -> Mapping[str, int]:
    gc.collect()
    mx.clear_cache()
    return {"active_bytes": mx.get_active_memory(), "cache_bytes": mx.get_cache_memory()}


class MlxContract(EngineContract):
    most_odd_chars: ClassVar[int] = 30
    guarded_texts: ClassVar[list[str]] = ["...", "x", "1次", "Huh?"]
    texts: ClassVar[list[str]] = ["Good morning.", "A sentence that is longer than that.", "Stop!"]
    modes: ClassVar[tuple[CloneMode, ...]] = ()
    """That this checkpoint clones from."""

    # Clones -----------------------------------------------------------------------------------------------------

    def prompts(self, model: Model[Any, Any]) -> list[Any]:
        """Of two people, in each mode."""
        return [
            model.restore(model.prepare(recording(number, transcript="Hello there."), mode))
            for mode in self.modes
            for number in (1, 2)
        ]

    def test_a_recording_decides_the_voice(self, model: Model[Any, Any]) -> None:
        takes = [
            speak(model, self.request_for(TEXT, voice="x"), prompt).samples for prompt in self.prompts(model)
        ]
        assert all(np.abs(take).max() > 0.001 for take in takes)
        for one, take in enumerate(takes):
            assert not any(np.array_equal(take, other) for other in takes[one + 1 :])

    def test_a_prompt_is_the_same_each_time_and_needs_no_recording(self, model: Model[Any, Any]) -> None:
        for mode in self.modes:
            first, second = (model.prepare(recording(1, transcript="Hello."), mode) for _ in range(2))
            assert first == second
            one, other = (
                speak(model, self.request_for(TEXT, voice="x"), model.restore(first)).samples
                for _ in range(2)
            )
            np.testing.assert_array_equal(one, other)

    def test_a_recording_of_another_rate_is_resampled(self, model: Model[Any, Any]) -> None:
        for mode in self.modes:
            prompt = model.restore(model.prepare(recording(1, rate_hz=16000, transcript="Hello."), mode))
            assert speak(model, self.request_for("Hello.", voice="x"), prompt).samples.size

    def test_three_voices_in_turns_speak_as_each_would_alone(self, model: Model[Any, Any]) -> None:
        voices: list[Any] = [*self.prompts(model), None, None, None][:3]
        requests = [
            self.request_for(text, **({} if voice is None else {"voice": "x"}))
            for text, voice in zip(self.texts, voices, strict=True)
        ]
        alone = [
            speak(model, request, voice).samples for request, voice in zip(requests, voices, strict=True)
        ]
        streams = [model.start(request, voice) for request, voice in zip(requests, voices, strict=True)]
        first = [step(model, stream).samples for stream in streams]
        second = [step(model, stream).samples for stream in reversed(streams)][::-1]
        for stream, one, other, whole in zip(streams, first, second, alone, strict=True):
            np.testing.assert_array_equal(whole, np.concatenate([one, other, finish(model, stream).samples]))

    @pytest.mark.parametrize("prompt", [b"", b"no tensors at all", bytes(64)])
    def test_a_prompt_that_is_none_is_an_engine_error(self, model: Model[Any, Any], prompt: bytes) -> None:
        with pytest.raises(EngineError):
            model.restore(prompt)

    def test_an_empty_recording_is_an_engine_error(self, model: Model[Any, Any]) -> None:
        silence = Reference(np.zeros(0, np.float32), 24000, "Hello.", None)
        for mode in ("audio", "audio+text"):
            with pytest.raises(EngineError):
                model.prepare(silence, mode)

    # Steps ------------------------------------------------------------------------------------------------------

    def test_the_first_step_is_the_shortest(self, model: Model[Any, Any]) -> None:
        sizes = [chunk.samples.size for chunk in speak(model, self.request_for(self.texts[1])).chunks]
        assert sizes[1] == 2 * sizes[0]
        assert sizes[2] in {sizes[1], 2 * sizes[1]}

    def test_another_seed_is_another_delivery(self, model: Model[Any, Any]) -> None:
        one, other = (speak(model, self.request_for(TEXT, seed=seed)).samples for seed in (1, 2))
        assert not np.array_equal(one, other)

    def test_the_threads_own_random_state_is_left_alone(self, model: Model[Any, Any]) -> None:
        mx.random.seed(3)
        expected = mx.random.uniform(shape=(4,)).tolist()
        mx.random.seed(3)
        speak(model, self.request_for("Stop!"))
        assert mx.random.uniform(shape=(4,)).tolist() == expected
        mx.random.seed(4)
        one = speak(model, self.request_for("Stop!")).samples
        mx.random.seed(5)
        np.testing.assert_array_equal(one, speak(model, self.request_for("Stop!")).samples)


class ForgetfulUnload:
    """What an unload must not be: the references are gone, and MLX keeps the memory."""

    def __init__(self, model: MlxModel) -> None:
        self._model = model

    def unload(self) -> None:
        for stream in list(self._model._streams):
            stream.pieces = None
        self._model._drop()
        gc.collect()


@pytest.mark.timeout(400)
class MlxMemory:
    """With a cache limit as on a Mac."""

    engine: ClassVar[Any]
    modes: ClassVar[tuple[CloneMode, ...]] = ()

    @pytest.fixture(scope="class")
    @classmethod
    def source(cls, tmp_path_factory: pytest.TempPathFactory) -> Source:
        raise NotImplementedError

    def request_for(self, source: Source, voice: str | None = None) -> Request:
        facts = self.engine.identify(source)
        return Request(
            text="Stop!",
            language=next(iter(facts.languages)),
            voice=voice or facts.voices[0].voice_id,
            seed=1,
        )

    def used(self, source: Source) -> tuple[MlxModel, list[MlxPrompt]]:
        """Loaded, and whatever can be done with it has been done."""
        model: MlxModel = self.engine.load(source, "cpu")
        prompts = [
            model.restore(model.prepare(recording(1, transcript="Hello."), mode)) for mode in self.modes
        ]
        for prompt in (None, *prompts):
            speak(model, self.request_for(source, None if prompt is None else "x"), prompt)
        step(model, model.start(self.request_for(source), None))
        return model, prompts

    def test_s29_unloading_gives_all_its_memory_back(self, source: Source) -> None:
        before = baseline()
        model, _ = self.used(source)
        assert model.memory()["active_bytes"] > before["active_bytes"] + 500_000, (
            "else there is nothing to see"
        )
        stream = model.start(self.request_for(source), None)
        step(model, stream)
        model.unload()
        assert mx.get_active_memory() <= before["active_bytes"] + OWN_BYTES
        assert mx.get_cache_memory() == 0

    def test_s29_dropping_the_references_alone_gives_nothing_back(self, source: Source) -> None:
        before = baseline()
        model, _ = self.used(source)
        taken_bytes = model.memory()["active_bytes"] - before["active_bytes"]
        ForgetfulUnload(model).unload()
        assert mx.get_cache_memory() > 0.9 * taken_bytes
        model.unload()
        assert mx.get_cache_memory() == 0

    def test_s30_unloading_drops_the_prompts_in_memory_whoever_holds_them(self, source: Source) -> None:
        before = baseline()
        model, prompts = self.used(source)
        model.unload()
        assert [prompt.tensors for prompt in prompts] == [{}] * len(self.modes)
        assert mx.get_active_memory() <= before["active_bytes"] + OWN_BYTES

    def test_twenty_utterances_and_twenty_cancels_leave_memory_as_it_was(self, source: Source) -> None:
        model, prompts = self.used(source)
        request = self.request_for(source)
        levels: list[int] = []
        for _ in range(20):
            speak(model, request)
            cancelled = model.start(request, None)
            step(model, cancelled)
            step(model, cancelled)
            model.close(cancelled)
            if prompts:
                stream = model.start(self.request_for(source, "x"), prompts[-1])
                step(model, stream)
                model.close(stream)
            memory = model.memory()
            levels.append(memory["active_bytes"] + memory["cache_bytes"])
        assert max(levels[1:]) - levels[1] <= OWN_BYTES
        model.unload()

    def test_the_cache_is_kept_between_chunks_and_cleared_after_an_utterance(self, source: Source) -> None:
        model = self.used(source)[0]
        stream = model.start(self.request_for(source), None)
        step(model, stream)
        step(model, stream)
        assert model.memory()["cache_bytes"] > 0
        model.close(stream)
        assert model.memory()["cache_bytes"] == 0
        assert model.memory()["peak_bytes"] == model.peak_bytes() > 0
        model.unload()
