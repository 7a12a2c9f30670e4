"""Two hundred replies as an assistant writes them."""

from pathlib import Path

import pytest
import regex

from tests.ws_server.text.feeding import segments

_FILE = Path(__file__).parents[3] / "bench" / "data" / "replies.txt"
REPLIES = [line.replace("\\n", "\n") for line in _FILE.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("reply", REPLIES)
def test_a_reply_by_the_token_gives_the_segments_of_the_whole(reply: str) -> None:
    tokens = regex.findall(r"\s*\w{1,4}|\W", reply)
    assert "".join(tokens) == reply
    assert segments(*tokens) == segments(reply)


def test_most_segments_end_where_a_speaker_would_pause() -> None:
    made = [segments(reply) for reply in REPLIES]
    first = [reply[0] for reply in made if reply]
    later = [segment for reply in made for segment in reply[1:]]
    assert len(first) == len(REPLIES) == 200
    assert sum(segment.speakable[-1] in '.!?:,;”"' for segment in first) > 100
    assert all(segment.cut in {"sentence", "end"} for segment in later)
