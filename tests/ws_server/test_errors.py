"""What a client is told of an engine's failure."""

import logging

import pytest

from engines.contract import EngineError, EngineFault
from residency.dispatcher import Dispatcher
from residency.listener import ListenerSpec
from tests.fakes.models import FakeEngine, facts, request, unit
from tests.residency.handlers import Notes
from ws_server.errors import error_of


def test_an_engines_own_words_reach_the_client() -> None:
    error = error_of(EngineError("the engine made no sound for its text"), "one")
    assert (error.code, error.message) == ("engine_failed", "the engine made no sound for its text")


async def test_what_it_raises_unawares_is_for_the_log_alone(caplog: pytest.LogCaptureFixture) -> None:
    notes = Notes()
    with caplog.at_level(logging.ERROR):
        async with Dispatcher([unit(FakeEngine(facts()))]) as dispatcher:
            dispatcher.submit(dispatcher.open(ListenerSpec(unit="fake"), notes), request("bomb"), 0.0)
            await notes.until_failed()
    assert "the device is lost" in caplog.text
    error = error_of(notes.failures[0][1], "one")
    assert (error.code, error.message) == ("engine_failed", "the engine failed; the server's log has more")


def test_so_is_what_an_engine_raises_in_a_process_of_its_own() -> None:
    error = error_of(EngineFault("FileNotFoundError: /srv/weights/anna.safetensors"), "one")
    assert "srv" not in error.message
