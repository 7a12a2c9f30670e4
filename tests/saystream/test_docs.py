"""docs/client.md and the code name the same things."""

import inspect
from pathlib import Path

import pytest

import saystream
from saystream.client import Client, OpenFields
from saystream.utterance import Utterance

PAGE = (Path(__file__).parents[2] / "docs" / "client.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", list(inspect.signature(Client).parameters))
def test_every_setting_of_the_client_is_in_the_docs(name: str) -> None:
    assert f"| `{name}` |" in PAGE


@pytest.mark.parametrize("name", [*OpenFields.__annotations__, "utterance_id", "replaces"])
def test_every_field_of_an_utterance_is_in_the_docs(name: str) -> None:
    assert f"`{name}`" in PAGE or f"{name}," in PAGE or f"{name}=" in PAGE


@pytest.mark.parametrize(
    "name", [name for name in vars(Utterance) if not name.startswith("_") and name not in {"receive", "lose"}]
)
def test_every_method_of_an_utterance_is_in_the_docs(name: str) -> None:
    assert f"u.{name}" in PAGE


@pytest.mark.parametrize("name", saystream.__all__)
def test_every_public_name_is_in_the_docs_and_can_be_imported(name: str) -> None:
    assert name in PAGE or name in {"SyncUtterance", "Utterance"}
    assert getattr(saystream, name).__name__ == name


@pytest.mark.parametrize("command", ["serve", "check", "say", "bench", "engines", "voices"])
def test_every_command_is_in_the_docs(command: str) -> None:
    assert f"`saystream {command}" in PAGE
