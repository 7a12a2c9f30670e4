"""What a recogniser makes of an engine's speech, through the guards."""

from engines.contract import Engine, Request, Source
from engines.guards import Guarded
from tests.engines.speaking import speak
from tests.engines.test_hibari_heard import SENTENCES
from tests.listening import normalise, transcribe, word_errors


def assert_understood(engine: Engine, source: Source, voice: str) -> None:
    """Twenty sentences: at most one word in twenty misheard, and nothing lost at the ends."""
    facts = engine.identify(source)
    model = engine.load(source, "cpu")
    guarded = Guarded(model, facts, engine.info)
    heard = {
        sentence: transcribe(
            speak(guarded, Request(text=sentence, language="en-US", voice=voice, seed=1)).samples,
            facts.sample_rate_hz,
        )
        for sentence in SENTENCES
    }
    model.unload()
    words = sum(len(normalise(sentence).split()) for sentence in SENTENCES)
    errors = sum(word_errors(sentence, transcript) for sentence, transcript in heard.items())
    assert errors / words <= 0.05, heard
    ends = [
        normalise(sentence).split()[-1] in normalise(heard[sentence]).split()[-3:] for sentence in SENTENCES
    ]
    assert sum(ends) >= len(ends) - 1, heard
    assert guarded.counts.second_takes == 0
