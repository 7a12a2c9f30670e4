"""How much of its text a listener had heard when the server can no longer be asked."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from protocol.messages import HeardText, Segment

_SAMPLES_PER_CHAR_S = 1 / 15
"""English speech runs at about 15 characters a second; used only for a segment whose length isn't known yet."""


@dataclass(slots=True)
class Transcript:
    """What the client knows of one utterance: its text, and where in the audio the server has put it."""

    text: list[str] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    words: list[tuple[int, int, int, int]] = field(default_factory=list)

    def add_segment(self, segment: Segment) -> None:
        if self.segments and self.segments[-1].index == segment.index:  # it has grown
            self.segments[-1] = segment
        else:
            self.segments.append(segment)


def heard(
    transcript: Transcript, *, sample_rate_hz: int, heard_samples: int, received_samples: int
) -> HeardText:
    """The end of the last word that was wholly heard; on doubt, the word before it."""
    heard_samples = min(heard_samples, received_samples)
    played_ms = 1000 * heard_samples / sample_rate_hz
    if heard_samples <= 0:
        return HeardText(end_char=0, exact=True, played_ms=0.0)
    timed_words = [end_char for _, end_char, _, end_sample in transcript.words if end_sample <= heard_samples]
    if transcript.words:
        return HeardText(end_char=max(timed_words, default=0), exact=False, played_ms=played_ms)
    end_char = _by_proportion(transcript, sample_rate_hz, heard_samples, received_samples)
    return HeardText(end_char=end_char, exact=False, played_ms=played_ms)


def _by_proportion(
    transcript: Transcript, sample_rate_hz: int, heard_samples: int, received_samples: int
) -> int:
    text = "".join(transcript.text)
    segments = transcript.segments
    end_char = 0
    for segment, end_sample in zip(segments, _ends(segments, sample_rate_hz, received_samples), strict=True):
        if heard_samples >= end_sample:
            end_char = segment.end_char
        elif heard_samples > segment.at_sample:
            share = (heard_samples - segment.at_sample) / (end_sample - segment.at_sample)
            reached = segment.start_char + int(share * (segment.end_char - segment.start_char))
            word_end = _word_end(text, segment.start_char, reached)
            end_char = word_end if word_end > segment.start_char else end_char
    return end_char


def _ends(segments: Sequence[Segment], sample_rate_hz: int, received_samples: int) -> list[int]:
    """Where each segment's audio ends; the last one's rest may not have arrived, so it is estimated."""
    if not segments:
        return []
    last = segments[-1]
    estimate = int((last.end_char - last.start_char) * _SAMPLES_PER_CHAR_S * sample_rate_hz)
    return [after.at_sample for after in segments[1:]] + [max(received_samples, last.at_sample + estimate)]


def _word_end(text: str, start_char: int, reached_char: int) -> int:
    """The last end of a word in text[start_char:reached_char], else `start_char`."""
    if reached_char >= len(text) or text[reached_char].isspace():
        return start_char + len(text[start_char:reached_char].rstrip())
    piece = text[start_char:reached_char]
    cut = max((at for at, char in enumerate(piece) if char.isspace()), default=0)
    return start_char + len(piece[:cut].rstrip())
