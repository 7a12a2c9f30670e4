"""One utterance's place on the device, as the event loop sees it."""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Literal, Protocol

from engines.contract import ModelLost, ModelStalled, Request, Samples, Word
from residency.clock import Gap, PlayoutClock
from residency.scheduler import Entry
from voices.reference import Clone

WaitReason = Literal["busy", "loading"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSpec:
    unit: str
    lead_s: float = 3.0
    """No step starts while more than this is in hand; infinite: a rendering."""
    cushion_s: float = 0.2
    speed: float = 1.0
    clone: Clone | None = None
    """The voice where it was uploaded; None: one of the engine's own."""
    client: Hashable = ""
    """The queue takes turns between clients, then between their connections."""
    connection: Hashable = ""


@dataclass(frozen=True, slots=True)
class StepTiming:
    started_s: float
    ended_s: float
    compute_s: float
    """This stream's share of the step."""


class ListenerHandler(Protocol):
    """Called on the event loop only, and never again after `close`."""

    def on_chunk(
        self, job: int, samples: Samples, words: tuple[Word, ...], last: bool, timing: StepTiming
    ) -> None: ...

    def on_failed(self, job: int, error: Exception) -> None:
        """Nothing more comes; close the listener."""

    def on_waiting(self, reason: WaitReason, position: int | None, wait_s: float | None) -> None:
        """It waits for a slot, or its engine is being loaded; on change, at most once a second."""

    def on_refused(self, error: Exception) -> None:
        """Busy, EngineUnavailable, EngineStalled, before any of its audio was made; close the listener."""


class Owner(Protocol):
    """Whoever keeps the listeners of a device."""

    def moved(self, listener: "Listener") -> None:
        """Its playout clock has jumped, or it is blocked no longer: it may be runnable sooner."""

    def text_finished(self, listener: "Listener") -> None: ...


@dataclass(slots=True, eq=False)
class Job:
    """One segment to be made."""

    number: int
    request: Request
    """With all its text so far."""
    cut_s: float
    given: Request | None = None
    """As its stream has it, or will with the step in progress."""
    wants_text: bool = False
    """Nothing can be made of it before more comes."""
    audio_s: float = 0.0
    steps: int = 0
    stream: Any = None
    """The model's own; only the lane touches it."""
    lost: bool = False
    """Its model was lost when it was to be begun."""

    def extend(self, text: str, *, last: bool) -> None:
        self.request = replace(self.request, text=self.request.text + text, last=last)
        self.wants_text = False

    def may_try_again(self, error: ModelLost) -> bool:
        """Once, if nothing of it has been heard; not after a long wait in vain."""
        return not self.steps and not self.lost and not isinstance(error, ModelStalled)


class Listener:
    """Methods are for the event loop; `jobs` and the flags after it belong to its audience, under the lock."""

    __slots__ = (
        "_owner",
        "clock",
        "closed",
        "ended",
        "entry",
        "granted_s",
        "handler",
        "jobs",
        "made_any",
        "next_job",
        "noticed",
        "opened_s",
        "spec",
        "stepping",
        "text_finished",
    )

    def __init__(
        self, spec: ListenerSpec, handler: ListenerHandler, *, key: int, owner: Owner, now_s: float
    ) -> None:
        self.spec = spec
        self.handler = handler
        self.clock = PlayoutClock(spec.cushion_s)
        self.entry = Entry(key=key, unit=spec.unit, lead_s=spec.lead_s)
        self.opened_s = now_s
        self._owner = owner
        self.jobs: deque[Job] = deque()
        """The first is the current one."""
        self.next_job = 0
        self.granted_s = now_s
        """When it last got a slot."""
        self.stepping = False
        self.made_any = False
        self.text_finished = False
        self.ended = False
        """Failed, refused or closed: no more work."""
        self.closed = False
        """Its owner has closed it: no more calls."""
        self.noticed: tuple[float, WaitReason, int | None] | None = None
        """The last notice of waiting and when it was given."""

    @property
    def live(self) -> bool:
        return self.spec.lead_s < inf

    @property
    def has_work(self) -> bool:
        """Something can be made for it; not of a text that waits for more of itself."""
        return bool(self.jobs) and not self.jobs[0].wants_text

    @property
    def key(self) -> int:
        return self.entry.key

    def sent(self, audio_s: float, now_s: float) -> Gap | None:
        """A frame has left the process; returns the gap that it ended, if there was one."""
        origin_s = self.clock.origin_s
        gap = self.clock.sent(audio_s, now_s)
        self.entry.sent_s = self.clock.sent_s
        if self.clock.origin_s != origin_s:
            self._publish()
        return gap

    def played(self, played_s: float, paused: bool, now_s: float) -> None:
        origin_s, frozen_s = self.clock.origin_s, self.clock.frozen_s
        self.clock.report(played_s, paused, now_s)
        if self.clock.origin_s != origin_s or self.clock.frozen_s != frozen_s:
            self._publish()

    def set_blocked(self, blocked: bool) -> None:
        """While its socket takes nothing no step starts for it."""
        if blocked != self.entry.blocked:
            self.entry.blocked = blocked
            if not blocked:
                self._owner.moved(self)

    def finish_text(self) -> None:
        """Nothing more will be submitted."""
        if not self.text_finished:
            self._owner.text_finished(self)

    def run_dry_s(self, now_s: float) -> float:
        """The moment at which it will have played all that was made; now if nothing was."""
        dry_s = self.entry.dry_s()
        return now_s if dry_s is None else dry_s

    def _publish(self) -> None:
        # Single floats, each written here alone: the lanes read them without a lock.
        self.entry.origin_s = self.clock.origin_s
        self.entry.frozen_s = self.clock.frozen_s
        self._owner.moved(self)
