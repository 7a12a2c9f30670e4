"""What is said about an utterance's audio before it: started, segments, words."""

import regex

from engines.contract import Samples, Word
from protocol import messages as wire
from ws_server.heard import Recording, SpokenSegment, WordTime, estimated_word_times
from ws_server.outgoing import Outgoing, Piece, SegmentStart, WordTimes
from ws_server.plan import Plan
from ws_server.text.segment import TextSegment

_SPEECH_CHARS_PER_S = 15.0
"""English read aloud; only for the length of a segment that isn't made yet."""
SAYABLE = regex.compile(r"[\p{L}\p{N}]")


class Announcer:
    """Puts chunks into `outgoing` in the order of the wire: segment, words, audio."""

    def __init__(self, opened: wire.Open, plan: Plan, outgoing: Outgoing, recording: Recording) -> None:
        self._opened = opened
        self._plan = plan
        self._outgoing = outgoing
        self._recording = recording
        self._index = 0
        self._engine_samples = 0
        self._announced_char = self._timed_char = 0
        """Of the segment that is being said: its end as it was announced, and of the last word with times."""
        self.started = False
        """Something was, or will be, heard."""

    def chunk(
        self,
        segment: TextSegment,
        spoken: SpokenSegment,
        samples: Samples,
        words: tuple[Word, ...],
        *,
        last: bool,
        started_s: float,
    ) -> None:
        """A step's result, the next one of `spoken`; `started_s`: when the step began."""
        if len(samples):
            first = self._engine_samples == 0
            self._engine_samples += len(samples)
            if first:
                self._begin(spoken, started_s)
            self._announce(segment, spoken, words, first=first)
            self._outgoing.put(Piece(samples, last))
        if last:
            self._end(segment, spoken)

    def _begin(self, spoken: SpokenSegment, started_s: float) -> None:
        if not self.started:
            self.started = True
            self._outgoing.put(self._started_message())
        spoken.step_s = started_s
        self._recording.segments.append(spoken)

    def _end(self, segment: TextSegment, spoken: SpokenSegment) -> None:
        if self._engine_samples:
            spoken.samples = self._at_output_rate(self._engine_samples)
            spoken.complete = True
            if not self._plan.facts.exact_words:
                spoken.replace_words(estimated_word_times(segment, spoken.samples))
            self._engine_samples = self._announced_char = self._timed_char = 0
            self._index += 1

    def _announce(
        self, segment: TextSegment, spoken: SpokenSegment, words: tuple[Word, ...], *, first: bool
    ) -> None:
        times: list[WordTime] = []
        end_char = segment.end_char
        if self._plan.facts.exact_words:
            times = self._client_words(segment, words)
            if words and SAYABLE.search(segment.speakable, words[-1][1]):
                end_char = times[-1][1]
        elif first or self._timed_char < segment.end_char:
            known = estimated_word_times(segment, self._expected_samples(segment))
            times = [time for time in known if time[0] >= self._timed_char]
            self._timed_char = segment.end_char
        spoken.add_words(times)
        wanted = bool(times) and self._opened.words
        # Without word times a segment is announced as far as it is known.
        end_char = end_char if wanted else segment.end_char
        if first or wanted or (end_char > self._announced_char and not self._opened.words):
            self._announced_char = end_char
            self._outgoing.put(SegmentStart(self._index, spoken, end_char))
        if wanted:
            self._outgoing.put(WordTimes(spoken, times))

    def _expected_samples(self, segment: TextSegment) -> int:
        expected_s = len(segment.speakable) / _SPEECH_CHARS_PER_S / self._plan.speed
        return round(expected_s * self._plan.sample_rate_hz)

    def _client_words(self, segment: TextSegment, words: tuple[Word, ...]) -> list[WordTime]:
        source, at = segment.source_chars, self._at_output_rate
        return [(source[a], source[b - 1] + 1, at(start), at(end)) for a, b, start, end in words]

    def _at_output_rate(self, engine_samples: int) -> int:
        return engine_samples * self._plan.sample_rate_hz // self._plan.facts.sample_rate_hz

    def _started_message(self) -> wire.Started:
        plan = self._plan
        return wire.Started(
            id=self._opened.id,
            engine=plan.engine,
            checkpoint=plan.facts.checkpoint,
            voice=plan.voice,
            language=plan.language,
            format=plan.format,
            sample_rate_hz=plan.sample_rate_hz,
            words="exact" if plan.facts.exact_words else "estimated",
        )
