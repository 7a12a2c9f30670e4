"""Ranges of options and settings: what is out of them is refused by its name."""

from dataclasses import fields
from typing import Any, TypeVar

from engines.contract import OptionError, Source

S = TypeVar("S")


def read_settings(kind: type[S], source: Source, engine: str) -> S:
    """Raises OptionError."""
    known = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    for name in source.settings:
        if name not in known:
            raise OptionError(name, f"{engine} has no such setting; it has {', '.join(known)}")
    return kind(**source.settings)


def check_number(name: str, value: Any, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise OptionError(name, f"must be {low:g} to {high:g}")


def check_count(name: str, value: Any, low: int, high: int) -> None:
    if type(value) is not int or not low <= value <= high:
        raise OptionError(name, f"must be {low} to {high}")


def check_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise OptionError(name, "must be true or false")


def check_line(name: str, value: Any, most_chars: int) -> None:
    if not isinstance(value, str) or len(value) > most_chars or not value.isprintable():
        raise OptionError(name, f"must be a line of at most {most_chars} characters")
