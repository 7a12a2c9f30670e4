"""Who listens on a device: their slots and queue places, what they wait for, and what they are told.

Pure, as the roster is whose part it is: the same lock is held around every call.
"""

from collections.abc import Callable, Sequence

from engines.contract import Request
from residency.admission import Admission
from residency.costs import Costs
from residency.errors import Busy, EngineStalled
from residency.lane_state import LaneState
from residency.listener import Job, Listener, ListenerHandler, ListenerSpec, Owner
from residency.loads import Loads
from residency.need import claim_of, paused_full, spare
from residency.notices import Notices
from residency.preparing import Preparing
from residency.rules import Rules
from residency.scheduler import Entry


class Audience:
    """Holds every listener from `open` until it is closed and no step is made for it any more."""

    def __init__(
        self,
        lanes: Sequence[LaneState],
        loads: Loads,
        costs: Costs,
        rules: Rules,
        elsewhere: Callable[[], float],
    ) -> None:
        """`elsewhere`: see Admission."""
        self._lanes = lanes
        self._loads = loads
        self._estimates = costs.estimates
        self.admission = Admission(
            costs.cost,
            capacity=rules.max_load * len(lanes),
            max_streams=costs.max_streams,
            max_queue=rules.max_queue,
            queue_wait_s=rules.queue_wait_s,
            elsewhere=elsewhere,
        )
        self.listeners: dict[int, Listener] = {}
        self.ready: dict[int, Entry] = {}
        """Of those that a lane may pick."""
        self.preparing = Preparing()
        self.notices = Notices()
        """For the loop: taken and delivered by the caller."""
        self._keys = self._orders = 0

    def open(
        self,
        spec: ListenerSpec,
        handler: ListenerHandler,
        *,
        owner: Owner,
        replaces: Listener | None,
        now_s: float,
    ) -> Listener:
        self._keys += 1
        listener = Listener(spec, handler, key=self._keys, owner=owner, now_s=now_s)
        self.listeners[listener.key] = listener
        if replaces is not None and not replaces.closed:
            listener.made_any = replaces.made_any
            listener.entry.order = replaces.entry.order
            if self.admission.take_over(replaces.key, claim_of(listener), now_s):
                listener.noticed = replaces.noticed
                if self.admission.holds(listener.key):
                    self._granted(listener, now_s)
            self.close(replaces, now_s)
        return listener

    def submit(self, listener: Listener, request: Request, cut_s: float, now_s: float) -> int:
        number = listener.next_job
        listener.next_job += 1
        if listener.ended:
            return number
        listener.jobs.append(Job(number, request, cut_s))
        if len(listener.jobs) == 1:
            self.want(listener, now_s)
        return number

    def extend(self, listener: Listener, number: int, text: str, *, last: bool, now_s: float) -> bool:
        """False: the job takes no more text."""
        if listener.ended:
            return True
        job = next((job for job in listener.jobs if job.number == number), None)
        if job is None or job.request.last:
            return False
        job.extend(text, last=last)
        if job is listener.jobs[0] and not listener.stepping:
            self.want(listener, now_s)
        return True

    def finish_waiting(self, unit: str, lane: int, now_s: float) -> None:
        """Streams that wait for text don't keep others out: they are spoken to the end of what they have."""
        for listener in self.listeners.values():
            if listener.entry.lane == lane and listener.spec.unit == unit and not listener.ended:
                job = listener.jobs[0]
                if job.wants_text:
                    job.extend("", last=True)
                    self.want(listener, now_s)

    def text_finished(self, listener: Listener, now_s: float) -> None:
        listener.text_finished = True
        self.release_if_spare(listener, now_s)

    def moved(self, listener: Listener, now_s: float) -> bool:
        """Its clock or socket has changed; True if a lane should look again."""
        if listener.ended:
            return False
        if listener.has_work and not listener.stepping:
            self.want(listener, now_s)
        self.release_if_spare(listener, now_s)
        return listener.key in self.ready

    def close(self, listener: Listener, now_s: float) -> None:
        listener.closed = True
        self._end(listener, now_s)

    def tick(self, now_s: float) -> None:
        for key in self.admission.expired(now_s):
            self.refuse(self.listeners[key], self._busy("no slot became free in time"), now_s)
        for key in self.admission.holders():
            self.release_if_spare(self.listeners[key], now_s)
        self.admit(now_s)
        self._give_notices(now_s)

    def want(self, listener: Listener, now_s: float) -> None:
        """It has something to be made."""
        unit, key = listener.spec.unit, listener.key
        if (refusal := self._refusal(unit, now_s)) is not None:
            self.refuse(listener, refusal, now_s)
            return
        if not self.admission.holds(key) and not self.admission.waits(key) and not paused_full(listener):
            if not self.admission.request(claim_of(listener), now_s):
                self.refuse(listener, self._busy("no slot and no place in the queue is free"), now_s)
                return
            if self.admission.holds(key):
                self._granted(listener, now_s)
            else:
                self._give_notices(now_s)
        self.refresh(listener, now_s)

    def _refusal(self, unit: str, now_s: float) -> Exception | None:
        if all(lane.stalled for lane in self._lanes):
            return EngineStalled(unit, max(now_s - lane.started_s for lane in self._lanes))
        return self._loads.refusal(unit, now_s)

    def _busy(self, message: str) -> Busy:
        return Busy(message, self.admission.retry_after_s())

    def _granted(self, listener: Listener, now_s: float) -> None:
        """The first slot decides its place among those whose deadlines are kept."""
        listener.granted_s = now_s
        if not listener.entry.order:
            self._orders += 1
            listener.entry.order = self._orders

    def release_if_spare(self, listener: Listener, now_s: float) -> None:
        if self.admission.holds(listener.key) and spare(listener, now_s):
            self.admission.release(listener.key, now_s)
            self.refresh(listener, now_s)
            self.admit(now_s)

    def admit(self, now_s: float) -> None:
        for key in self.admission.admit(now_s):
            self._granted(self.listeners[key], now_s)
            self.refresh(self.listeners[key], now_s)

    def refresh(self, listener: Listener, now_s: float) -> None:
        """Whether a lane may pick it; one without a slot still finishes the stream that it has open."""
        entry, key = listener.entry, listener.key
        may = self.admission.holds(key) or entry.lane is not None
        if not listener.has_work or listener.stepping or listener.ended or not may:
            if self.ready.pop(key, None) is not None:
                self._loads.waits(entry.unit, -1, now_s)
            return
        job = listener.jobs[0]
        estimates, chars, first = self._estimates[entry.unit], len(job.request.text), job.steps == 0
        entry.cut_s = max(job.cut_s, listener.granted_s)
        prompt_s = self.preparing.expected_s(entry.unit, listener.spec.clone) if entry.lane is None else 0.0
        entry.est_s = prompt_s + estimates.step_s(chars, first=first)
        entry.est_high_s = prompt_s + estimates.step_high_s(chars, first=first)
        if key in self.ready:
            return
        self.ready[key] = entry
        self._loads.waits(entry.unit, +1, now_s)
        if self._loads.state(entry.unit) != "ready":
            self.notices.waits(listener, "loading", now_s)

    def _end(self, listener: Listener, now_s: float) -> None:
        """No step starts for it any more. Its slot comes free when the step that it is in has ended."""
        if not listener.ended:
            listener.ended = True
            self.refresh(listener, now_s)
        if not listener.stepping:
            self.let_go(listener, now_s)

    def let_go(self, listener: Listener, now_s: float) -> None:
        """It has ended, and no step is made for it any more; idempotent."""
        if listener.entry.lane is not None:
            self._lanes[listener.entry.lane].close(listener.spec.unit, listener.jobs[0])
            listener.entry.lane = None
        listener.jobs.clear()
        if listener.closed:
            self.listeners.pop(listener.key, None)
        self.admission.release(listener.key, now_s)
        self.admit(now_s)

    def refuse(self, listener: Listener, error: Exception, now_s: float) -> None:
        """Once it has been heard this is a failure of the job that was to follow."""
        if listener.ended:
            return
        if listener.made_any and listener.jobs:
            self.fail(listener, listener.jobs[0], error, now_s)
            return
        self.notices.refused(listener, error)
        self._end(listener, now_s)

    def refuse_all(self, unit: str, now_s: float) -> None:
        """If it can't be had: all that wait for it."""
        failure = self._loads.refusal(unit, now_s)
        for listener in list(self.listeners.values()):
            if failure and listener.spec.unit == unit and listener.jobs and not listener.stepping:
                self.refuse(listener, failure, now_s)

    def fail(self, listener: Listener, job: Job, error: Exception, now_s: float) -> None:
        if listener.ended:
            return
        self.notices.failed(listener, job, error)
        self._end(listener, now_s)

    def _give_notices(self, now_s: float) -> None:
        for position, (key, wait_s) in enumerate(self.admission.waits_s().items(), 1):
            self.notices.waits(self.listeners[key], "busy", now_s, position, wait_s)
