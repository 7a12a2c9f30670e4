"""hibari's way from text to phoneme ids, with the characters that each id speaks.

The library's front end rewrites text (times, dates, units, abbreviations) before it reads it and keeps no
offsets, so the rewritten words are aligned with the written ones; a run of words that was rewritten is one
word here ("7:30 pm" has one time, not four).
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from hibari import Hibari
from hibari.g2p import G2P
from hibari.g2p.normalize import normalize

_WORD = re.compile(r"\S+")
_DIGIT_RUN = re.compile(r"\d(?:,?\d){18,}")
"""The library's number reader raises IndexError past its largest scale word (36 digits); nobody follows a number
beyond the quintillions by ear anyway, so these are read digit by digit."""
_LONG_WORD = re.compile(r"[^\W\d_]{46,}")
_SPELT_LETTERS = 30
"""The network for unknown words gives up on longer ones, and would leave out the rest."""
_MARKUP = re.compile(r"\](?=\()")
"""The front end takes `[word](/phonemes/)` as instructions, which a user's text mustn't be able to give."""
_UNUSUAL = re.compile(r"[^A-Za-z0-9 .,;:!?'-]")
_EDGES = ".,;:!?…\"'“”‘’()[]{}«»—–-"
_PAUSES = frozenset(';:,.!?—…"()“” ')
"""The vocabulary's characters that aren't sounds."""
_MAX_PHONEMES = 400


@dataclass(frozen=True, slots=True)
class WrittenWord:
    start_char: int
    end_char: int
    first_id: int
    end_id: int
    """Phonemes [first_id, end_id) of `Utterable.ids` speak it."""


@dataclass(frozen=True, slots=True)
class Utterable:
    """What one run of the network speaks."""

    ids: tuple[int, ...]
    """With the network's padding at both ends."""
    words: tuple[WrittenWord, ...]


@dataclass(frozen=True, slots=True)
class _Sound:
    phonemes: str
    span: tuple[int, int] | None
    """Characters of the text; None: punctuation."""


class Reader:
    """Turns a segment into what the network can speak at once; needs its voice's accent."""

    def __init__(self, g2p: G2P, vocabulary: Mapping[str, int]) -> None:
        self._g2p = g2p
        self._vocabulary = vocabulary

    def read(self, text: str) -> Iterator[Utterable]:
        """One for each sentence, more for very long ones; none for what has no sound in it."""
        at = 0
        for sentence in Hibari.split_sentences(text):
            at = text.index(sentence, at)
            sounds = self._sounds_of_anything(sentence, at)
            for start, end in _pieces(sounds):
                if any(set(sound.phonemes) - _PAUSES for sound in sounds[start:end]):
                    goes_on = sounds[end].span if end < len(sounds) else None
                    yield self._utterable(sounds[start:end], goes_on)
            at += len(sentence)

    def _sounds_of_anything(self, sentence: str, at: int) -> list[_Sound]:
        try:
            return self._sounds(sentence, at)
        except Exception:  # noqa: BLE001 - the edge to a reader that raises what it likes over a sign it can't read
            return self._sounds(_UNUSUAL.sub(" ", sentence), at)

    def _sounds(self, sentence: str, at: int) -> list[_Sound]:
        """One for each word of the rewritten sentence, in order."""
        spoken = normalize(_respell(sentence))
        if not spoken:
            return []
        spans = _align(sentence, spoken)
        phonemes = [""]
        for token in self._g2p.phonemize_tokens(self._g2p.tokenize(spoken)):
            phonemes[-1] += token.phonemes or ""
            if token.whitespace:
                phonemes.append("")
        sounds = zip(phonemes, spans, strict=True)
        return [_Sound(word, None if span is None else (span[0] + at, span[1] + at)) for word, span in sounds]

    def _utterable(self, sounds: Sequence[_Sound], goes_on: tuple[int, int] | None) -> Utterable:
        """`goes_on`: a word that begins the next piece; if it began in this one, its time is that of its end."""
        ids = [0]
        words: list[WrittenWord] = []
        for index, sound in enumerate(sounds):
            if index and len(ids) > 1:
                ids.append(self._vocabulary[" "])
            first_id = end_id = len(ids)
            for phoneme in sound.phonemes:
                if (number := self._vocabulary.get(phoneme)) is not None:
                    ids.append(number)
                    end_id = end_id if phoneme in _PAUSES else len(ids)
            if sound.span != goes_on and end_id > first_id:
                _add(words, sound.span, first_id, end_id)
        while ids[-1] == self._vocabulary[" "]:
            ids.pop()
        return Utterable((*ids, 0), tuple(words))


def _respell(sentence: str) -> str:
    """What the front end can't read or must not obey, in spaced pieces."""
    sentence = "".join(map(_digit, sentence))
    sentence = _DIGIT_RUN.sub(_digit_by_digit, _MARKUP.sub("] ", sentence))
    return _LONG_WORD.sub(_piece_by_piece, sentence)


def _digit(char: str) -> str:
    """A superscript or circled digit as a plain one; the front end knows ² and ³ (squared, cubed)."""
    plain = unicodedata.digit(char, -1)
    return char if plain < 0 or char in "²³" else str(plain)


def _piece_by_piece(word: re.Match[str]) -> str:
    text = word.group()
    return " ".join(text[at : at + _SPELT_LETTERS] for at in range(0, len(text), _SPELT_LETTERS))


def _digit_by_digit(number: re.Match[str]) -> str:
    return " ".join(number.group().replace(",", ""))


def _add(words: list[WrittenWord], span: tuple[int, int] | None, first_id: int, end_id: int) -> None:
    """A written word that became several spoken ones is still one."""
    if span is None:
        return
    if words and words[-1].start_char == span[0]:
        first_id = words.pop().first_id
    words.append(WrittenWord(*span, first_id, end_id))


def _align(written: str, spoken: str) -> list[tuple[int, int] | None]:
    """For each word of `spoken` the characters of `written` that it speaks, without outer punctuation."""
    ours = [match.span() for match in _WORD.finditer(written)]
    theirs = spoken.split()
    spans: list[tuple[int, int] | None] = []
    matcher = SequenceMatcher(None, [written[low:high] for low, high in ours], theirs, autojunk=False)
    for kind, low, high, first, end in matcher.get_opcodes():
        if kind == "equal" or high - low == end - first:
            spans.extend(_trim(written, *ours[index]) for index in range(low, high))
        elif high > low:
            spans.extend([_trim(written, ours[low][0], ours[high - 1][1])] * (end - first))
        else:
            spans.extend([None] * (end - first))
    return spans


def _trim(text: str, start: int, end: int) -> tuple[int, int] | None:
    while start < end and text[start] in _EDGES:
        start += 1
    while start < end and text[end - 1] in _EDGES:
        end -= 1
    return (start, end) if start < end else None


def _pieces(sounds: Sequence[_Sound]) -> Iterator[tuple[int, int]]:
    """Runs [start, end) as long as the network takes, cut after a clause if there is one, else between two words."""
    start = size = clause = 0
    for index, sound in enumerate(sounds):
        size += len(sound.phonemes) + 1
        if size > _MAX_PHONEMES and index > start:
            cut = clause if clause > start else index
            yield start, cut
            start = cut
            size = sum(len(sound.phonemes) + 1 for sound in sounds[start : index + 1])
        if sound.phonemes.endswith((",", ";", ":", "—")):
            clause = index + 1
    yield start, len(sounds)
