"""What every engine must keep; each engine's test module subclasses this with its own loading."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

from engines.contract import (
    Chunk,
    Engine,
    EngineError,
    EngineUnavailable,
    Facts,
    Info,
    Model,
    Request,
    Source,
    info_of,
)
from engines.guards import Guarded
from tests.engines.speaking import finish, speak, speak_together, spoken, step

ODD_TEXTS = [
    "",
    " ",
    "...",
    "!!!",
    '""',
    "😀",
    "👩‍👩‍👧‍👦🇩🇪",
    "Huh?",
    "x",
    "1次",
    "1" * 300,
    "9,999," * 40,
    "a" * 400,
    "\u200f\u05e9\u05dc\u05d5\u05dd",
    "你好。",
    "مرحبا؟",
    "\u0000\u200b\ufeff",
    "e\u0301",
    "[word](/wˈɜːd/)",
    "<speak>&amp;</speak>",
    "C:\\path\\to.exe -x --y=z",
    "line\nline\tline",
    "50% of £3.50 at 7:30 pm on 3/4/2024",
]


class EngineContract:
    engine: ClassVar[Engine]
    source: ClassVar[Source] = Source()
    most_odd_chars: ClassVar[int] = 400
    guarded_texts: ClassVar[list[str]] = ODD_TEXTS
    """Fewer, and shorter, for an engine that is slow: the odd texts are said three times."""
    batch_tolerance: ClassVar[float] = 0.0
    """By how much a sample of a batched stream may differ from the same alone: matrices are rounded otherwise."""
    texts: ClassVar[list[str]] = [
        "Good morning, everyone.",
        "The second sentence is a little longer than the first one was.",
        "Stop!",
    ]

    @pytest.fixture(scope="class")
    @classmethod
    def facts(cls) -> Facts:
        return cls.engine.identify(cls.source)

    @pytest.fixture(scope="class")
    @classmethod
    def info(cls) -> Info:
        return info_of(cls.engine.info, cls.engine.identify(cls.source))

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls) -> Iterator[Model[Any, Any]]:
        model = cls.engine.load(cls.source, "cpu")
        yield model
        model.unload()

    def request_for(self, text: str, **changes: Any) -> Request:
        info = info_of(self.engine.info, self.engine.identify(self.source))
        values: dict[str, Any] = {
            "language": next(iter(info.languages)),
            "voice": info.voices[0].voice_id,
            "seed": 7,
        }
        return Request(text=text, **(values | changes))

    # What is known without loading ------------------------------------------------------------------------------

    def test_the_info_is_complete(self, info: Info) -> None:
        assert info.name
        assert info.version
        assert info.voices
        assert info.languages
        assert info.devices
        assert info.devices <= {"cpu", "cuda", "mps"}
        assert len({voice.voice_id for voice in info.voices}) == len(info.voices)
        assert all(voice.language in info.languages for voice in info.voices)

    def test_the_facts_are_plausible_and_the_same_each_time(self, facts: Facts) -> None:
        low, high = facts.speed
        assert 0 < low <= 1 <= high
        assert facts.max_batch >= 1
        assert facts.max_open >= 1
        assert facts.max_chars > 0
        assert 8000 <= facts.sample_rate_hz <= 48000
        assert self.engine.identify(self.source) == facts

    def test_a_device_it_does_not_have_is_refused_with_a_reason(self) -> None:
        with pytest.raises(EngineUnavailable, match="nowhere"):
            self.engine.load(self.source, "nowhere")

    # One stream -------------------------------------------------------------------------------------------------

    def test_samples_are_a_flat_float32_array_between_minus_one_and_one(self, model: Model[Any, Any]) -> None:
        for text in self.texts:
            for chunk in speak(model, self.request_for(text)).chunks:
                assert chunk.samples.dtype == np.float32
                assert chunk.samples.ndim == 1
                assert np.isfinite(chunk.samples).all()
                assert chunk.samples.size == 0 or np.abs(chunk.samples).max() <= 1

    def test_only_the_last_chunk_says_so(self, model: Model[Any, Any]) -> None:
        chunks = speak(model, self.request_for(self.texts[1])).chunks
        assert [chunk.last for chunk in chunks] == [False] * (len(chunks) - 1) + [True]

    def test_the_same_request_gives_the_same_samples(self, model: Model[Any, Any]) -> None:
        first, second = (speak(model, self.request_for(self.texts[1])) for _ in range(2))
        np.testing.assert_array_equal(first.samples, second.samples)
        assert first.words == second.words

    def test_another_model_of_the_same_checkpoint_speaks_the_same(self, model: Model[Any, Any]) -> None:
        other = self.engine.load(self.source, "cpu")
        try:
            np.testing.assert_array_equal(
                speak(other, self.request_for(self.texts[0])).samples,
                speak(model, self.request_for(self.texts[0])).samples,
            )
        finally:
            other.unload()

    def test_a_longer_text_takes_longer(self, model: Model[Any, Any]) -> None:
        long, short = (speak(model, self.request_for(text)).samples.size for text in self.texts[1:3])
        assert long > 2 * short

    def test_speed_scales_the_length(self, model: Model[Any, Any], facts: Facts) -> None:
        low, high = facts.speed
        if low == high:
            pytest.skip("this engine has one speed")
        slow, fast = (
            speak(model, self.request_for(self.texts[1], speed=speed)).samples.size for speed in (low, high)
        )
        assert slow / fast == pytest.approx(high / low, rel=0.25)

    def test_words_are_in_order_and_within_text_and_samples(
        self, model: Model[Any, Any], facts: Facts
    ) -> None:
        if not facts.exact_words:
            pytest.skip("this engine doesn't know when its words are spoken")
        for text in self.texts:
            result = speak(model, self.request_for(text))
            assert [text[start:end].strip(".,!") for start, end, _, _ in result.words] == text.translate(
                str.maketrans("", "", ".,!")
            ).split()
            positions = [sample for _, _, start, end in result.words for sample in (start, end)]
            assert positions == sorted(positions)
            assert positions[-1] <= result.samples.size

    def test_a_word_is_announced_no_later_than_its_samples(
        self, model: Model[Any, Any], facts: Facts
    ) -> None:
        if not facts.exact_words:
            pytest.skip("this engine doesn't know when its words are spoken")
        made = 0
        known: set[int] = set()
        result = speak(model, self.request_for(self.texts[1]))
        for chunk in result.chunks:
            made += chunk.samples.size
            known |= {word[2] for word in chunk.words}
            assert {word[2] for word in result.words if word[2] < made} <= known

    @pytest.mark.parametrize("text", ODD_TEXTS, ids=lambda text: ascii(text)[:20])
    def test_an_odd_text_ends_properly(self, model: Model[Any, Any], facts: Facts, text: str) -> None:
        result = speak(model, self.request_for(text[: min(self.most_odd_chars, facts.max_chars)]))
        assert result.chunks[-1].last
        assert all(
            0 <= start < end <= len(text) and 0 <= first <= final <= result.samples.size
            for start, end, first, final in result.words
        )

    def test_the_longest_text_is_spoken(self, model: Model[Any, Any], facts: Facts) -> None:
        text = ("words and more words " * (facts.max_chars // 21 + 1))[: facts.max_chars].strip()
        assert (
            speak(model, self.request_for(text)).samples.size > facts.max_chars * 0.03 * facts.sample_rate_hz
        )

    # Many streams -----------------------------------------------------------------------------------------------

    def test_interleaved_streams_speak_as_they_would_alone(
        self, model: Model[Any, Any], facts: Facts
    ) -> None:
        if facts.max_open == 1:
            pytest.skip("this engine can't interleave")
        self._assert_together_is_alone(model, batch=1)

    def test_batched_streams_speak_as_they_would_alone(self, model: Model[Any, Any], facts: Facts) -> None:
        if facts.max_batch == 1:
            pytest.skip("this engine has no batches")
        self._assert_together_is_alone(model, batch=min(2, facts.max_batch), tolerance=self.batch_tolerance)

    def _assert_together_is_alone(
        self, model: Model[Any, Any], batch: int, *, tolerance: float = 0.0
    ) -> None:
        requests = [self.request_for(text) for text in self.texts]
        alone = [speak(model, request) for request in requests]
        for one, other in zip(alone, speak_together(model, requests, batch), strict=True):
            np.testing.assert_allclose(one.samples, other.samples, rtol=0, atol=tolerance)
            assert one.words == other.words

    @pytest.mark.parametrize("steps", [0, 1, 2])
    def test_a_cancelled_stream_leaves_no_trace(self, model: Model[Any, Any], steps: int) -> None:
        fresh = speak(model, self.request_for(self.texts[1]))
        stream = model.start(self.request_for(self.texts[1]), None)
        for _ in range(steps):
            if step(model, stream).last:
                break
        model.close(stream)
        again = speak(model, self.request_for(self.texts[1]))
        np.testing.assert_array_equal(fresh.samples, again.samples)

    def test_cancelling_one_stream_leaves_another_alone(self, model: Model[Any, Any], facts: Facts) -> None:
        if facts.max_open == 1:
            pytest.skip("this engine can't interleave")
        alone = speak(model, self.request_for(self.texts[1]))
        kept = model.start(self.request_for(self.texts[1]), None)
        cancelled = model.start(self.request_for(self.texts[0]), None)
        step(model, cancelled)
        first = step(model, kept)
        model.close(cancelled)
        rest = [] if first.last else [finish(model, kept).samples]
        model.close(kept)
        np.testing.assert_array_equal(alone.samples, np.concatenate([first.samples, *rest]))

    def test_closing_twice_is_the_same_as_once(self, model: Model[Any, Any]) -> None:
        stream = model.start(self.request_for(self.texts[0]), None)
        finish(model, stream)
        model.close(stream)
        model.close(stream)

    # Errors -----------------------------------------------------------------------------------------------------

    def test_a_closed_stream_fails_alone(self, model: Model[Any, Any]) -> None:
        stream = model.start(self.request_for(self.texts[0]), None)
        model.close(stream)
        (result,) = model.step([stream])
        assert isinstance(result, EngineError)
        assert speak(model, self.request_for(self.texts[0])).samples.size

    def test_an_unknown_voice_is_an_engine_error(self, model: Model[Any, Any]) -> None:
        with pytest.raises(EngineError, match="nobody"):
            speak(model, self.request_for(self.texts[0], voice="nobody"))

    def test_what_it_cannot_do_is_an_engine_error(
        self, model: Model[Any, Any], info: Info, facts: Facts
    ) -> None:
        if not facts.grows:
            stream = model.start(self.request_for(self.texts[0]), None)
            with pytest.raises(EngineError):
                model.extend(stream, "more", last=True)
            model.close(stream)
        if not info.clones:
            with pytest.raises(EngineError):
                model.restore(b"{}")

    # Growing ----------------------------------------------------------------------------------------------------

    def test_a_grown_stream_says_all_its_text(self, model: Model[Any, Any], facts: Facts) -> None:
        if not facts.grows:
            pytest.skip("this engine's streams don't grow")
        text = "One two three four five six seven eight."
        whole = speak(model, self.request_for(text))
        for end in (4, 8, 14, 24):
            stream = model.start(self.request_for(text[:end], last=False), None)
            chunks = self._until_it_wants_text(model, stream)
            model.extend(stream, text[end:-6], last=False)
            chunks += self._until_it_wants_text(model, stream)
            model.extend(stream, text[-6:], last=True)
            grown = spoken([*chunks, *finish(model, stream).chunks])
            np.testing.assert_array_equal(grown.samples, whole.samples)
            assert grown.words == whole.words

    def _until_it_wants_text(self, model: Model[Any, Any], stream: Any) -> list[Chunk]:
        chunks = [step(model, stream)]
        while not chunks[-1].wants_text:
            assert not chunks[-1].last
            chunks.append(step(model, stream))
        return chunks

    def test_a_grown_stream_that_gets_no_word_more_ends(self, model: Model[Any, Any], facts: Facts) -> None:
        if not facts.grows:
            pytest.skip("this engine's streams don't grow")
        stream = model.start(self.request_for("One two ", last=False), None)
        chunks = self._until_it_wants_text(model, stream)
        model.extend(stream, "", last=True)
        grown = spoken([*chunks, *finish(model, stream).chunks])
        np.testing.assert_array_equal(grown.samples, speak(model, self.request_for("One two")).samples)
        with pytest.raises(EngineError):
            model.extend(stream, "three", last=True)

    def test_grown_streams_interleave_and_one_that_waits_keeps_nobody_up(
        self, model: Model[Any, Any], facts: Facts
    ) -> None:
        if not facts.grows or facts.max_open == 1:
            pytest.skip("this engine's streams don't grow beside each other")
        waiting = model.start(self.request_for("One two ", last=False), None)
        chunks = self._until_it_wants_text(model, waiting)
        other = speak(model, self.request_for(self.texts[0])).samples
        np.testing.assert_array_equal(other, speak(model, self.request_for(self.texts[0])).samples)
        model.extend(waiting, "three.", last=True)
        grown = spoken([*chunks, *finish(model, waiting).chunks])
        np.testing.assert_array_equal(grown.samples, speak(model, self.request_for("One two three.")).samples)

    # Guards -----------------------------------------------------------------------------------------------------

    def test_guards_let_sound_speech_through(self, model: Model[Any, Any], facts: Facts, info: Info) -> None:
        guarded = Guarded(model, facts, info)
        most_chars = min(self.most_odd_chars, facts.max_chars)
        for text in [*self.texts, *(odd[:most_chars] for odd in self.guarded_texts)]:
            plain = speak(model, self.request_for(text)).samples
            through = speak(guarded, self.request_for(text)).samples
            assert through.size <= plain.size
            assert np.abs(through).sum() >= 0.99 * np.abs(plain).sum() - 1
        counts = guarded.counts
        assert (counts.runaways, counts.collapsed, counts.silent, counts.clamped_chunks) == (0, 0, 0, 0)

    def test_guarded_words_follow_the_samples(self, model: Model[Any, Any], facts: Facts, info: Info) -> None:
        if not facts.exact_words:
            pytest.skip("this engine doesn't know when its words are spoken")
        plain = speak(model, self.request_for(self.texts[1]))
        through = speak(Guarded(model, facts, info), self.request_for(self.texts[1]))
        for (*chars, start, end), (*same_chars, new_start, new_end) in zip(
            plain.words, through.words, strict=True
        ):
            assert chars == same_chars
            word, moved = plain.samples[start:end], through.samples[new_start:new_end]
            np.testing.assert_array_equal(word[: moved.size], moved)
            assert moved.size > 0.9 * word.size

    # Memory -----------------------------------------------------------------------------------------------------

    def test_it_can_be_loaded_again_after_an_unload(self) -> None:
        for _ in range(2):
            model = self.engine.load(self.source, "cpu")
            last: Chunk = speak(model, self.request_for(self.texts[0])).chunks[-1]
            assert last.last
            model.unload()
