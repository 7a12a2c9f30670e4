"""The conversation of saystream.v1, both ends, without a socket or a clock.

Each end has an object that is told of every message: `receive` for what came in, `send` just before something
goes out. `protocol.order` holds the rule of what may follow what; it is the same for both.
"""

from protocol.client import ClientConversation
from protocol.server import ServerConversation
from protocol.verdict import Apply, Close, Fail, Ignore, Refuse, Verdict

__all__ = [
    "Apply",
    "ClientConversation",
    "Close",
    "Fail",
    "Ignore",
    "Refuse",
    "ServerConversation",
    "Verdict",
]
