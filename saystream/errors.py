"""What can go wrong for a client, named by situation.

ClientError
├── CannotConnect       no connection could be made: network, name, time-out, TLS
├── HandshakeRefused    the server answered no before the upgrade: key, origin, full, draining
├── ConnectionLost      the connection of an open utterance is gone; `heard` is what its listener had heard
├── UtteranceFailed     the server ended the utterance with an error, maybe after some audio
│   └── Refused         ... before any audio: nothing has been spoken
├── SlowConsumer        audio waited for so long, or was so much, that the client cancelled the utterance
└── UtteranceOver       used after its end: cancelled or replaced meanwhile, ended, or its context was left
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from protocol.messages import Done, Error, HeardText


class ClientError(Exception):
    """The root of all that saystream's client raises."""


class CannotConnect(ClientError):  # noqa: N818 - named by situation
    """No connection could be made."""


class HandshakeRefused(ClientError):  # noqa: N818 - named by situation
    def __init__(self, status: int, code: str, message: str, retry_after_s: float | None) -> None:
        super().__init__(f"{message} ({code}, HTTP {status})")
        self.status = status
        self.code = code
        self.message = message
        self.retry_after_s = retry_after_s

    @property
    def retryable(self) -> bool:
        return self.status in {429, 502, 503, 504}


class ConnectionLost(ClientError):  # noqa: N818 - named by situation
    """Its text isn't sent again; a caller who wants the rest opens a new utterance from `heard.end_char`."""

    def __init__(self, message: str, heard: "HeardText") -> None:
        super().__init__(message)
        self.heard = heard


class UtteranceFailed(ClientError):  # noqa: N818 - named by situation
    def __init__(self, error: "Error", done: "Done") -> None:
        super().__init__(f"{error.message} ({error.code})")
        self.code = error.code
        self.message = error.message
        self.retryable = error.retryable
        self.retry_after_ms = error.retry_after_ms
        self.param = error.param
        self.value: Any = error.value
        self.done = done


class Refused(UtteranceFailed):
    """Nothing has been spoken; `retryable` and `retry_after_ms` say whether to try again."""


class SlowConsumer(ClientError):  # noqa: N818 - named by situation
    def __init__(self, waiting_bytes: int) -> None:
        super().__init__(f"{waiting_bytes} bytes of audio were waiting to be taken")
        self.waiting_bytes = waiting_bytes


class UtteranceOver(ClientError):  # noqa: N818 - named by situation
    def __init__(self, message: str, done: "Done | None" = None) -> None:
        super().__init__(message)
        self.done = done
