import threading

import pytest

from engines import background
from engines.background import Background
from engines.contract import VoiceUnavailable


def got(thing: Background[str]) -> str:
    while (found := thing.wait()) is None:
        pass
    return found


def test_waiting_returns_while_it_is_on_its_way() -> None:
    go = threading.Event()

    def slow() -> str:
        go.wait()
        return "here"

    thing = Background("a voice", slow)
    assert thing.wait() is None
    assert not thing.over
    go.set()
    assert got(thing) == "here"
    assert thing.over
    assert thing.wait() == "here"


def test_its_failure_is_that_of_everyone_who_waits() -> None:
    def broken() -> str:
        raise OSError("no network")

    thing = Background("a voice", broken)
    for _ in range(2):
        with pytest.raises(VoiceUnavailable, match="a voice couldn't be loaded: no network"):
            got(thing)


def test_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    monkeypatch.setattr(background, "_PATIENCE_S", -1.0)

    def slow() -> str:
        go.wait()
        return "late"

    thing = Background("a voice", slow)
    with pytest.raises(VoiceUnavailable, match="still being loaded"):
        thing.wait()
    go.set()
    assert got(thing) == "late"
