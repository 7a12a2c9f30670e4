"""The public face of saystream: the client library, and the `saystream` command."""

import importlib
from typing import TYPE_CHECKING, Any

from saystream import shadow
from saystream.errors import (
    CannotConnect,
    ClientError,
    ConnectionLost,
    HandshakeRefused,
    Refused,
    SlowConsumer,
    UtteranceFailed,
    UtteranceOver,
)

if TYPE_CHECKING:
    from saystream.client import Client
    from saystream.sync_client import SyncClient, SyncUtterance
    from saystream.utterance import Frame, Utterance

__all__ = [
    "CannotConnect",
    "Client",
    "ClientError",
    "ConnectionLost",
    "Frame",
    "HandshakeRefused",
    "Refused",
    "SlowConsumer",
    "SyncClient",
    "SyncUtterance",
    "Utterance",
    "UtteranceFailed",
    "UtteranceOver",
]

_HOMES = {
    "Client": "saystream.client",
    "Frame": "saystream.utterance",
    "SyncClient": "saystream.sync_client",
    "SyncUtterance": "saystream.sync_client",
    "Utterance": "saystream.utterance",
}


def __getattr__(name: str) -> Any:
    """Import on demand, once `protocol` is known to be ours."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    shadow.check()
    return getattr(importlib.import_module(_HOMES[name]), name)
