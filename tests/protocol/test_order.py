"""The order within an utterance, as the wire page writes it."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.messages import Open
from protocol.order import TABLE, State, UtteranceMessage, UtteranceOrder
from tests.protocol.examples import audio, done, failure, flushed, heard, queued, segment, started, words

A, B = (0, 3, 0, 240), (4, 6, 240, 480)


def order(**fields: Any) -> UtteranceOrder:
    made = UtteranceOrder(Open(id="a", words=True, **fields), LocalProtocolError)
    made.ended = True
    made.stop("cancelled")
    return made


def run(*messages: UtteranceMessage, flushes: int = 0) -> UtteranceOrder:
    made = order()
    for _ in range(flushes):
        made.flush(None)
    for message in messages:
        made.advance(message)
    return made


IN_ORDER: dict[str, tuple[int, tuple[UtteranceMessage, ...]]] = {
    "nothing to say": (0, (done(),)),
    "blank text, flushed": (1, (flushed(), done())),
    "waited and gave up": (0, (queued(), queued(), failure(), done("failed"))),
    "one segment": (0, (started(), segment(), words(A, B), audio(), done(samples=480))),
    "two words messages": (
        0,
        (queued(), started(), segment(), words(A), words(B), audio(), done(samples=480)),
    ),
    "two segments with a flush between": (
        1,
        (
            started(),
            segment(),
            audio(),
            audio(1, 480),
            flushed(960),
            segment(1, 7, 12, 960),
            audio(2, 960),
            done(samples=1440),
        ),
    ),
    "a segment that grows": (
        0,
        (
            started(),
            segment(),
            words(A),
            audio(),
            segment(0, 0, 9),
            words((7, 9, 480, 900)),
            audio(1, 480),
            done(samples=960),
        ),
    ),
    "cancelled before any sample": (0, (started(), segment(), done("cancelled"))),
    "failed in mid-speech": (0, (started(), segment(), audio(), failure(), done("failed", samples=480))),
    "timed out": (0, (started(), failure(), done("timeout"))),
    "heard after complete": (0, (done(), heard())),
}
OUT_OF_ORDER: dict[str, tuple[int, tuple[UtteranceMessage, ...]]] = {
    "audio before started": (0, (audio(),)),
    "segment before started": (0, (segment(),)),
    "audio before its segment": (0, (started(), audio())),
    "words before their segment": (0, (started(), words(A))),
    "queued after started": (0, (started(), queued())),
    "started twice": (0, (started(), started())),
    "words between frames": (0, (started(), segment(), audio(), words(A))),
    "audio after flushed": (1, (started(), segment(), audio(), flushed(480), audio(1, 480))),
    "flushed unasked": (0, (flushed(),)),
    "flushed twice": (1, (flushed(), flushed())),
    "flushed at another place": (1, (started(), segment(), audio(), flushed(0))),
    "flushed with another mark": (1, (flushed(mark="m"),)),
    "a gap in seq": (0, (started(), segment(), audio(), audio(2, 480))),
    "a gap in at_sample": (0, (started(), segment(), audio(), audio(1, 481))),
    "half a sample": (0, (started(), segment(), audio(sample_bytes=1, samples=481))),
    "an empty frame": (0, (started(), segment(), audio(samples=0))),
    "a frame of 64 KiB": (0, (started(), segment(), audio(samples=32768))),
    "a segment elsewhere": (0, (started(), segment(at_sample=1))),
    "a segment of no text": (0, (started(), segment(0, 3, 3))),
    "a segment inside the last": (0, (started(), segment(), audio(), segment(1, 5, 9, 480))),
    "an old index": (0, (started(), segment(1), audio(), segment(0, 7, 9, 480))),
    "a repeated segment that doesn't grow": (0, (started(), segment(), audio(), segment())),
    "failed without an error": (0, (done("failed"),)),
    "timed out without an error": (0, (done("timeout"),)),
    "complete after an error": (0, (failure(), done())),
    "two errors": (0, (failure(), failure())),
    "audio after an error": (0, (started(), segment(), failure(), audio())),
    "complete with a flush pending": (1, (done(),)),
    "done with other samples": (0, (started(), segment(), audio(), done(samples=479))),
    "replaced by nobody": (0, (done("replaced"),)),
    "two dones": (0, (done(), done())),
    "audio after done": (0, (done(), audio())),
    "heard before done": (0, (heard(),)),
    "heard twice": (0, (done(), heard(), heard())),
}


@pytest.mark.parametrize("name", IN_ORDER)
def test_what_is_in_order_passes(name: str) -> None:
    flushes, messages = IN_ORDER[name]
    assert run(*messages, flushes=flushes).state in (State.DONE, State.HEARD)


@pytest.mark.parametrize("name", OUT_OF_ORDER)
def test_what_is_out_of_order_is_refused(name: str) -> None:
    flushes, messages = OUT_OF_ORDER[name]
    made = run(*messages[:-1], flushes=flushes)
    before = (made.state, made.position_samples, made.pending_flushes)
    with pytest.raises(LocalProtocolError):
        made.advance(messages[-1])
    assert (made.state, made.position_samples, made.pending_flushes) == before


def test_complete_needs_an_end() -> None:
    with pytest.raises(LocalProtocolError):
        UtteranceOrder(Open(id="a"), LocalProtocolError).advance(done())


def test_words_come_only_if_they_were_asked_for() -> None:
    made = UtteranceOrder(Open(id="a"), LocalProtocolError)
    made.advance(started())
    made.advance(segment())
    with pytest.raises(LocalProtocolError):
        made.advance(words(A))


def test_a_receiver_takes_words_between_frames() -> None:
    made = run(started(), segment(), audio())
    made.advance(words(B), words_anywhere=True)
    made.advance(audio(1, 480))
    assert made.position_samples == 960


@pytest.mark.parametrize(("format_", "sample_bytes"), [("s16le", 2), ("f32le", 4), ("mulaw", 1), ("alaw", 1)])
def test_positions_count_samples_of_the_format(format_: str, sample_bytes: int) -> None:
    made = run(
        started(format=format_),
        segment(),
        audio(sample_bytes=sample_bytes),
        audio(1, 480, 10, "a", sample_bytes),
    )
    assert made.position_samples == 490


def test_nothing_comes_before_the_end_of_what_it_replaces() -> None:
    old = run(started())
    old.owes = "done"
    new = UtteranceOrder(Open(id="b", replaces="a"), RemoteProtocolError, old)
    with pytest.raises(RemoteProtocolError):
        new.advance(queued("b"))
    old.advance(done("cancelled"))
    new.advance(queued("b"))
    assert new._predecessor is None, "else a long chain of replacements would be kept"


LETTERS = {
    "queued": "Q",
    "started": "S",
    "segment": "G",
    "words": "W",
    "audio": "A",
    "error": "E",
    "done": "D",
    "done after error": "T",
    "heard": "H",
}
THE_PAGE = re.compile(r"Q*(S(GW*A*)*)?(D|ET)H?")
"""`queued`* -> `started`? -> (`segment` -> `words`* -> `audio`*)* -> `error`? -> `done`, and one `heard`."""


@given(st.lists(st.sampled_from(sorted(LETTERS)), max_size=14))
def test_the_table_takes_what_the_page_takes(events: list[str]) -> None:
    """`flushed` aside, which may come anywhere between."""
    state: State | None = State.OPENED
    for event in events:
        state = TABLE[state].get(event) if state is not None else None
    line = "".join(LETTERS[event] for event in events)
    assert (state in (State.DONE, State.HEARD)) == (THE_PAGE.fullmatch(line) is not None)


@given(st.from_regex(THE_PAGE, fullmatch=True))
def test_whatever_the_page_allows_the_table_takes(line: str) -> None:
    events = {letter: event for event, letter in LETTERS.items()}
    state = State.OPENED
    for letter in line.strip():
        state = TABLE[state][events[letter]]
    assert state in (State.DONE, State.HEARD)
