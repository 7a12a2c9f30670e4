"""What a listener is told while it waits: on change, at most once a second."""

from residency.listener import Listener, WaitReason

NOTICE_S = 1.0


def is_news(listener: Listener, reason: WaitReason, position: int | None, now_s: float) -> bool:
    """Whether to say so now; remembers that it was said."""
    if listener.noticed is not None:
        given_s, *said = listener.noticed
        if said == [reason, position] or now_s - given_s < NOTICE_S:
            return False
    listener.noticed = (now_s, reason, position)
    return True
