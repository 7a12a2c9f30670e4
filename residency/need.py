"""What a listener needs, and whether it needs its slot."""

from math import inf

from residency.admission import Claim
from residency.listener import Listener

INHERITED_S = 2.0
"""A slot that was taken over is kept this long for the first text."""


def claim_of(listener: Listener) -> Claim:
    spec = listener.spec
    return Claim(
        key=listener.key,
        unit=spec.unit,
        live=listener.live,
        speed=spec.speed,
        client=spec.client,
        connection=spec.connection,
        returning=listener.made_any,
    )


def paused_full(listener: Listener) -> bool:
    """It takes nothing more before it plays on."""
    entry = listener.entry
    return entry.frozen_s is not None and entry.made_s - entry.frozen_s >= entry.lead_s


def spare(listener: Listener, now_s: float) -> bool:
    """Nothing is being made and nothing is to be made soon.

    A live listener whose text is awaited keeps its slot while it plays: it will need the device again in a
    moment, and load counts those who speak.
    """
    if listener.stepping:
        return False
    if listener.has_work:
        return paused_full(listener)
    if listener.text_finished or not listener.live:
        return True
    dry_s = listener.entry.dry_s()
    if dry_s is None:
        return now_s >= listener.opened_s + INHERITED_S
    return dry_s <= now_s or dry_s == inf
