"""The default engine as a listener hears it, through the guards."""

from typing import Any

import pytest

from engines.contract import Request, Source
from engines.guards import Guarded
from engines.hibari import HibariModel, engine
from tests.engines.speaking import speak
from tests.listening import normalise, transcribe, word_errors

SENTENCES = [
    "The kettle is on the stove, and the water is nearly boiling.",
    "Did you remember to lock the back door last night?",
    "On the third of March, two hundred people came to the meeting.",
    "She bought seven apples, a loaf of bread and some cheese.",
    "What a wonderful surprise!",
    "The train to London leaves from platform nine at half past six.",
    "If it rains tomorrow, we will play the match on Sunday instead.",
    "He opened the letter slowly, read it twice and smiled.",
    "My brother works as an engineer in a small factory near the coast.",
    "Please turn off the lights before you leave the room.",
    "Nobody had expected the bridge to be closed for so long.",
    "The museum is free, but the special exhibition costs $12.",
    "It was cold, dark and very quiet in the old house.",
    "Would you like some more coffee, or shall we go?",
    "The children were playing football in the park all afternoon.",
    "Dr. Brown will see you in about twenty minutes.",
    "After the storm, the sky was clear and the air was fresh.",
    "I can't find my glasses; have you seen them anywhere?",
    "The new library has more than fifty thousand books.",
    "Thank you very much for all your help today.",
]


@pytest.fixture(scope="module")
def model() -> Guarded[Any, Any]:
    inner: HibariModel = engine.load(Source(), "cpu")
    return Guarded(inner, engine.identify(Source()), engine.info)


@pytest.mark.real_voice
def test_a_recogniser_understands_twenty_sentences_and_their_last_words(
    model: Guarded[Any, Any],
) -> None:
    heard = {
        sentence: transcribe(
            speak(model, Request(text=sentence, language="en-US", voice="heart", seed=1)).samples, 24000
        )
        for sentence in SENTENCES
    }
    words = sum(len(normalise(sentence).split()) for sentence in SENTENCES)
    errors = sum(word_errors(sentence, transcript) for sentence, transcript in heard.items())
    assert errors / words <= 0.05, heard
    for sentence, transcript in heard.items():
        assert normalise(sentence).split()[-1] in normalise(transcript).split()[-3:]
