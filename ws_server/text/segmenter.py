"""Cuts the speakable copy into segments, from the left, each as soon as what was written decides it."""

from dataclasses import replace

import regex

from ws_server.text import ladder
from ws_server.text.connectors import connectors
from ws_server.text.rules import SegmentRules
from ws_server.text.segment import Cut, TextSegment
from ws_server.text.sentences import (
    LOOKAHEAD_CHARS,
    WAIT,
    SentenceEnds,
    ends_with_number,
    language_code,
    looks_ended,
)
from ws_server.text.speakable import BREAK, SpeakableCopy

_BLANK = regex.compile(r"\s*+")
_PAST_CLAUSE = regex.compile(r"[^\"'”’»)\]—,;:،–-]")
_LONG_WORD_CHARS = 60
_MAX_CHARS = 2000


class Segmenter:
    """Its cuts depend on the text alone, but for `cut_tail` and `force`."""

    def __init__(self, copy: SpeakableCopy, rules: SegmentRules, language: str) -> None:
        self._copy = copy
        self._rules = rules
        code = language_code(language)
        self._sentence_ends = SentenceEnds(code)
        self._small = connectors(code)
        self._most_chars = self._max_chars = min(rules.max_chars or _MAX_CHARS, _MAX_CHARS)
        stops = regex.escape(self._sentence_ends.stops)
        self._later_events = regex.compile(rf"[{stops}\n]")
        self._first_events = regex.compile(rf"[{stops}\n {regex.escape(ladder.CLAUSE_MARKS)}]")
        self._start = 0
        """Where the open segment begins in the copy."""
        self._seen = 0
        """Up to here everything has been decided."""
        self._sentence_start = 0
        self._sentences: list[int] = []
        """Ends of sentences inside the open segment: short ones, waiting to be joined."""
        self._first = True
        self._handed = 0
        """In the copy: up to here the open segment has been handed out already; it is cut no earlier."""
        self._made: list[TextSegment] = []

    def limit(self, max_chars: int | None) -> None:
        """Until told otherwise cut no piece longer than that, though the text alone would allow it."""
        self._max_chars = self._most_chars if max_chars is None else min(max_chars, self._most_chars)

    # What is there ------------------------------------------------------------------------------------------

    @property
    def pending(self) -> bool:
        return ladder.is_spoken(self._copy.text, self._start, len(self._copy.text))

    @property
    def tail(self) -> str:
        return self._copy.text[self._start :]

    def last_sentence_end(self) -> int | None:
        """In the copy: the end of the last complete sentence that hasn't been cut."""
        return self._sentences[-1] if self._sentences else None

    def ended_wait(self, undecided: str) -> int | None:
        """How many waits end a sentence here, with `undecided` still held back; None: it doesn't look like an end."""
        tail = self.tail + undecided
        if not ladder.is_spoken(tail, 0, len(tail)) or not looks_ended(tail):
            return None
        return 3 if ends_with_number(tail) else 1

    def last_space(self) -> int | None:
        """In the copy: the last white space after something speakable."""
        text = self._copy.text
        place = max(text.rfind(" ", self._start), text.rfind(BREAK, self._start))
        return place if place > self._start and ladder.is_spoken(text, self._start, place) else None

    # Cuts ---------------------------------------------------------------------------------------------------

    def cut_certain(self) -> list[TextSegment]:
        self._advance(len(self._copy.text), None)
        return self._taken()

    def growth(self) -> TextSegment | None:
        """The whole words of the open segment that will be part of it whatever comes, with the white space after
        them; None: no more than the last time. What looks complete is left for a cut, if nothing of it is out yet.
        """
        text = self._copy.text
        self._skip_blank(len(text))
        if self._handed <= self._start and looks_ended(self.tail):
            return None
        certain = min(self._seen, self._start + self._max_chars)
        space = text.rfind(" ", max(self._start, self._handed), certain)
        if space < 0 or not ladder.is_spoken(text, self._start, space):
            return None
        self._handed = space + 1
        words = self._segment(self._start, space + 1, "growth")
        return replace(words, end_char=self._copy.ends[space - 1])

    def cut_tail(self, cut: Cut, end: int | None = None) -> list[TextSegment]:
        """Everything up to `end`, which counts as the end of the text, and what has been handed out."""
        self._advance(len(self._copy.text) if end is None else max(end, self._handed), cut)
        if cut in {"flush", "end"}:
            self._first = True
        return self._taken()

    def force(self, max_chars: int) -> TextSegment | None:
        """The best piece of at most `max_chars`, or the shortest sensible one if that is longer."""
        end = self._forced_end(max_chars)
        if end is None or end <= self._handed:
            return None
        self._cut(end, "forced")
        return next(iter(self._taken()), None)

    def _forced_end(self, max_chars: int) -> int | None:
        text, start = self._copy.text, self._start
        limit = min(len(text), start + max(max_chars, 1))
        for sentence in reversed(self._sentences):
            if sentence <= limit or sentence == self._sentences[0]:
                return sentence
        if self.pending and len(text) <= limit and self._sentence_ends.likely(text[start:]):
            return len(text)
        clause = ladder.last_clause(text, start, limit, 2, 0)
        if clause is not None:
            return clause
        last = self.last_space()
        if last is None:
            too_long = len(text) - start > max(_LONG_WORD_CHARS, max_chars)
            return ladder.last_grapheme(text, start, limit) if too_long else None
        for min_words in (3, 2):
            place = ladder.best_word(text, start, min(limit, last) + 1, min_words, self._small)
            if place is not None:
                return place
        return self._shortest(last)

    def _shortest(self, last: int) -> int | None:
        """The end of the second word, however long."""
        text = self._copy.text
        for place in range(self._start, last + 1):
            if text[place].isspace() and ladder.words(text, self._start, place) >= 2:
                return place
        return None

    def _taken(self) -> list[TextSegment]:
        made, self._made = self._made, []
        if self._start:
            gone = self._start
            self._copy.take(gone)
            self._start = 0
            self._handed = max(0, self._handed - gone)
            self._seen -= gone
            self._sentence_start -= gone
            self._sentences = [place - gone for place in self._sentences]
        return made

    # The walk -----------------------------------------------------------------------------------------------

    def _advance(self, end: int, final: Cut | None) -> None:
        """Walk to `end`; with `final` nothing is left before it."""
        while self._walk(end, final):
            pass
        if final is not None and self._start < end:
            self._cut(end, final)

    def _walk(self, end: int, final: Cut | None) -> bool:
        """Decide one place; False: nothing more can be decided."""
        self._skip_blank(end)
        text, limit = self._copy.text, self._start + self._max_chars
        events = self._first_events if self._first and not self._rules.grows else self._later_events
        found = events.search(text, self._seen, min(end, limit + 1))
        if found is None:
            self._seen = max(self._seen, min(end, limit + 1))
            return self._cap(limit, end)
        place, mark = found.start(), found[0]
        if mark == BREAK:
            self._cut(place, "sentence")
            return True
        if mark in self._sentence_ends.stops:
            return self._stop(place, limit, end, final)
        if mark == " ":
            self._first_space(place)
            return True
        return self._first_clause(place, limit, end, final)

    def _skip_blank(self, end: int) -> None:
        blank = _BLANK.match(self._copy.text, self._start, end)
        if blank is not None and blank.end() > self._start:
            self._start = blank.end()
            self._seen = max(self._seen, self._start)
            self._sentence_start = max(self._sentence_start, self._start)

    def _cap(self, limit: int, end: int) -> bool:
        if end <= limit:
            return False
        space = self._copy.text.rfind(" ", self._start + 1, limit + 1) if self._rules.grows else -1
        if space > 0:
            # What is certain has been handed out: nowhere else can be reached whatever the increments were.
            self._cut(space, "cap")
        elif self._sentences:
            self._cut(self._sentences[-1], "sentence")
        else:
            cut: Cut = "cap" if self._max_chars == self._most_chars else "forced"
            self._cut(ladder.within(self._copy.text, self._start, limit, self._small), cut)
        return True

    def _stop(self, place: int, limit: int, end: int, final: Cut | None) -> bool:
        text = self._copy.text
        if not ladder.is_spoken(text, self._start, place):
            self._seen = place + 1
            return True
        sentence_end, onward = self._sentence_ends.at(text, place, self._sentence_start, end)
        if sentence_end == WAIT:
            if end > limit + LOOKAHEAD_CHARS:
                return self._cap(limit, end)
            if final is None:
                self._seen = place
                return False
            sentence_end = -1
        if sentence_end < 0:
            self._seen = onward
            return True
        if sentence_end > limit:
            return self._cap(limit, end)
        self._end_sentence(sentence_end)
        return True

    def _end_sentence(self, place: int) -> None:
        self._sentences.append(place)
        self._sentence_start = self._seen = place
        full = 0 < self._rules.max_sentences <= len(self._sentences)
        if self._first or full or self._weight(place) >= self._rules.join_chars:
            self._cut(place, "sentence")

    def _weight(self, end: int) -> int:
        """How long the open segment is up to `end`; a character of a script without spaces says as much as three."""
        return end - self._start + 2 * ladder.unspaced_chars(self._copy.text, self._start, end)

    def _first_clause(self, place: int, limit: int, end: int, final: Cut | None) -> bool:
        text = self._copy.text
        mark = ladder.CLAUSE.match(text, place, end)
        if mark is None and final is None and self._clause_undecided(place, end):
            return False
        if mark is None or mark.end() > limit:
            self._seen = place + 1
        elif (
            ladder.words(text, self._start, mark.end()) >= self._rules.first_clause_words and mark.end() < end
        ):
            self._cut(mark.end(), "clause")
        elif mark.end() == end and final is None:
            return False
        else:
            self._seen = mark.end()
        return True

    def _clause_undecided(self, place: int, end: int) -> bool:
        return end - place < ladder.CLAUSE_LOOKAHEAD_CHARS and not _PAST_CLAUSE.search(
            self._copy.text, place, end
        )

    def _first_space(self, place: int) -> None:
        text, start, rules = self._copy.text, self._start, self._rules
        self._seen = place + 1
        chars = place - start
        if chars < min(2 * rules.first_words - 1, rules.first_chars):
            return
        count = ladder.words(text, start, place)
        enough = count >= rules.first_words or chars >= rules.first_chars
        if enough and (count >= rules.first_clause_words or chars >= 2 * rules.first_chars):
            min_words = min(count, rules.first_clause_words)
            best = ladder.best_word(text, start, place + 1, min_words, self._small)
            self._cut(place if best is None else best, "clause")

    def _cut(self, end: int, cut: Cut) -> None:
        """Cut at `end`; a piece without anything speakable is left out."""
        text = self._copy.text
        last = end
        while last > self._start and text[last - 1].isspace():
            last -= 1
        if ladder.is_spoken(text, self._start, last):
            self._made.append(self._segment(self._start, last, cut))
            self._first = False
        self._start = self._handed = end
        self._seen = max(self._seen, end)
        self._sentence_start = max(self._sentence_start, end)
        self._sentences = [place for place in self._sentences if place > end]

    def _segment(self, start: int, end: int, cut: Cut) -> TextSegment:
        starts, ends = self._copy.starts, self._copy.ends
        return TextSegment(
            start_char=starts[start],
            end_char=ends[end - 1],
            speakable=self._copy.text[start:end],
            source_chars=(*starts[start:end], ends[end - 1]),
            cut=cut,
        )
