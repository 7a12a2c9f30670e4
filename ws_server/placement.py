"""Where an engine runs and how long it stays in memory: what an operator says beside the engine's own settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from engines.contract import Source
from residency.planner import Policy
from ws_server.accelerators import Device


class Placement(BaseModel):
    """The keys of an engine's table that aren't the engine's own."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    path: str | None = None
    process: Literal["inline", "hosted"] | None = None
    """Hosted: in a process of its own, which can be killed, and whose memory really comes back. None: inline, but for
    several engines whose library can end a process.
    """
    python: str | None = None
    """The interpreter of a hosted engine, with packages of its own; else ours."""
    device: Device | Literal["auto"] | None = None
    """None: as the setting `device` says."""
    policy: Policy | None = None
    """None: the default engine is SOFT_PIN, and the first of those that share such a library; the others UNPINNED."""


@dataclass(frozen=True, slots=True)
class Place:
    """As it turned out."""

    device: str
    hosted: bool
    policy: Policy


def read_table(values: Mapping[str, Any]) -> tuple[Placement, Source]:
    """An engine's table. Raises ValueError with a line for each wrong key."""
    names = Placement.model_fields
    try:
        placement = Placement(**{name: value for name, value in values.items() if name in names})
    except ValidationError as error:
        raise ValueError(
            "; ".join(f"{_where(item['loc'])}: {item['msg']}" for item in error.errors())
        ) from None
    if placement.python is not None and placement.process != "hosted":
        raise ValueError('python: only a hosted engine has an interpreter of its own (process = "hosted")')
    own = {name: value for name, value in values.items() if name not in names}
    return placement, Source(path=placement.path, settings=own)


def _where(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in location)
