"""Who listens on a device, what is to be made for whom, and which lane makes it now.

Pure: no thread, lock or clock. Whoever calls it holds one lock around every call, and afterwards wakes the lanes
and delivers its `notices` on the loop.
"""

from collections.abc import Iterable, Mapping, Sequence

from engines.contract import Chunk, EngineUnavailable, ModelLost, Request
from residency.admission import Admission
from residency.costs import Costs
from residency.errors import Busy, EngineStalled
from residency.lane_state import LaneState
from residency.learning import learn_from_step
from residency.listener import Job, Listener, ListenerHandler, ListenerSpec, Owner, StepTiming
from residency.loads import Loads
from residency.need import claim_of, paused_full, spare
from residency.notices import Notices
from residency.rules import Rules
from residency.scheduler import Entry, pick
from residency.units import Unit
from residency.work import Canary, Load, Outcome, Rest, Step, Turn, Unload, Work

REFUSED_S = 1.0
"""What is pinned may be unpinned: then who was kept out by it is let in."""


class Roster:
    """`governed`: a planner decides what is loaded; else whatever is asked for is."""

    def __init__(
        self, units: Mapping[str, Unit], *, lanes: int, rules: Rules, governed: bool = False
    ) -> None:
        self._units = units
        self._rules = rules
        self.lanes = [LaneState(number, units) for number in range(lanes)]
        capacity = rules.max_load * lanes
        self.costs = Costs(units, capacity=capacity, rules=rules)
        self.estimates = self.costs.estimates
        self.admission = Admission(
            self.costs.cost,
            capacity=capacity,
            max_streams=self.costs.max_streams,
            max_queue=rules.max_queue,
            queue_wait_s=rules.queue_wait_s,
        )
        self.listeners: dict[int, Listener] = {}
        self._ready: dict[int, Entry] = {}
        preload = (name for name in rules.preload if name in units)
        self.loads = Loads(self.lanes, preload, governed=governed)
        self.notices = Notices()
        """For the loop: taken and delivered by the caller."""
        self._keys = self._orders = 0

    # The loop's side

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
            self._want(listener, now_s)
        return number

    def text_finished(self, listener: Listener, now_s: float) -> None:
        listener.text_finished = True
        self._release_if_spare(listener, now_s)

    def moved(self, listener: Listener, now_s: float) -> bool:
        """Its clock or socket has changed; True if a lane should look again."""
        if listener.ended:
            return False
        if listener.jobs and not listener.stepping:
            self._want(listener, now_s)
        self._release_if_spare(listener, now_s)
        return listener.key in self._ready

    def close(self, listener: Listener, now_s: float) -> None:
        listener.closed = True
        self._end(listener, now_s)

    def tick(self, now_s: float) -> None:
        """What time alone brings about; call it a few times a second."""
        self._watch(now_s)
        for key in self.admission.expired(now_s):
            self._refuse(self.listeners[key], self._busy("no slot became free in time"), now_s)
        for key in self.admission.holders():
            self._release_if_spare(self.listeners[key], now_s)
        self._admit(now_s)
        self._give_notices(now_s)

    # A lane's side

    def next_work(self, number: int, now_s: float) -> Work:
        lane = self.lanes[number]
        closings = lane.take_closings()
        if (unit := self.loads.leaver(lane)) is not None:
            return Work(closings, lane.begin(Unload(unit), now_s, self._rules.stall_s))
        if (unit := self.loads.due(lane, now_s, idle=False)) is not None:
            return Work(closings, lane.begin(Load(unit), now_s, self._rules.load_s))
        picked = pick(
            self._ready.values(),
            now_s=now_s,
            lane=number,
            rooms=lane.rooms(self.loads.leaving),
            lanes=len(self.lanes),
        )
        if picked.entries:
            return Work(closings, self._begin_step(lane, picked.entries, now_s))
        if (unit := self.loads.due(lane, now_s, idle=True)) is not None:
            return Work(closings, lane.begin(Load(unit), now_s, self._rules.load_s))
        if (unit := self._unproved(lane, now_s)) is not None:
            return Work(closings, lane.begin(Canary(unit), now_s, self._rules.stall_s))
        return Work(closings, Rest(now_s if closings else picked.wake_s))

    def finish_step(self, number: int, outcomes: Sequence[Outcome], started_s: float, ended_s: float) -> None:
        lane = self.lanes[number]
        assert lane.step is not None  # noqa: S101 - a lane finishes what it was given
        unit = lane.step.unit
        timing = StepTiming(started_s, ended_s, (ended_s - started_s) / max(len(outcomes), 1))
        if not lane.stalled:
            rate_hz = self._units[unit].facts.sample_rate_hz
            learn_from_step(self.estimates[unit], outcomes, timing, rate_hz)
        lane.finish()
        self.loads.used_s[unit] = ended_s
        if any(isinstance(one.result, Chunk) for one in outcomes):
            lane.proved_s[unit] = ended_s
        lost = next((one.result for one in outcomes if isinstance(one.result, ModelLost)), None)
        if lost is not None:
            self._lose(lane, unit, lost, ended_s)
        for outcome in outcomes:
            self._finish_turn(lane, outcome, timing)

    def finish_load(
        self, number: int, unit: str, error: Exception | None, now_s: float, *, load_s: float = 0.0
    ) -> None:
        lane = self.lanes[number]
        lane.finish()
        self.loads.finish(lane, unit, error, now_s, load_s=load_s)
        self._refuse_all(unit, now_s)

    def finish_canary(self, number: int, unit: str, error: ModelLost | None, now_s: float) -> None:
        """With an error the lane has unloaded the model."""
        lane = self.lanes[number]
        lane.finish()
        if error is None:
            lane.proved_s[unit] = now_s
        else:
            self._lose(lane, unit, error, now_s)

    def _unproved(self, lane: LaneState, now_s: float) -> str | None:
        """A model that hasn't spoken for long."""
        able = [unit for unit in lane.loaded if self._units[unit].probes and not lane.open_of(unit)]
        within_s = self._rules.canary_s * (2 if self.admission.in_flight else 1)
        return next((unit for unit in able if now_s - lane.proved_s[unit] >= within_s), None)

    def finish_unload(self, number: int, unit: str, now_s: float) -> None:
        lane = self.lanes[number]
        lane.finish()
        self.loads.finish_unload(lane, unit, now_s)

    def direct(
        self,
        *,
        load: Iterable[str],
        leave: Iterable[str],
        refused: Mapping[str, EngineUnavailable],
        now_s: float,
    ) -> None:
        """What the planner of the device's memory has decided."""
        self.loads.direct(load=load, leave=leave)
        for unit, error in refused.items():
            self.loads.fail(unit, error, now_s + REFUSED_S)
            self._refuse_all(unit, now_s)

    def lose_lane(self, number: int, now_s: float) -> None:
        """Its thread has ended."""
        lane = self.lanes[number]
        lane.loaded.clear()
        self._stall(lane, now_s)

    # Slots

    def _want(self, listener: Listener, now_s: float) -> None:
        """It has something to be made."""
        unit, key = listener.spec.unit, listener.key
        if (refusal := self._refusal(unit, now_s)) is not None:
            self._refuse(listener, refusal, now_s)
            return
        if not self.admission.holds(key) and not self.admission.waits(key) and not paused_full(listener):
            if not self.admission.request(claim_of(listener), now_s):
                self._refuse(listener, self._busy("no slot and no place in the queue is free"), now_s)
                return
            if self.admission.holds(key):
                self._granted(listener, now_s)
            else:
                self._give_notices(now_s)
        self._refresh(listener, now_s)

    def _refusal(self, unit: str, now_s: float) -> Exception | None:
        if all(lane.stalled for lane in self.lanes):
            return EngineStalled(unit, max(now_s - lane.started_s for lane in self.lanes))
        return self.loads.refusal(unit, now_s)

    def _busy(self, message: str) -> Busy:
        return Busy(message, self.admission.retry_after_s())

    def _granted(self, listener: Listener, now_s: float) -> None:
        """The first slot decides its place among those whose deadlines are kept."""
        listener.granted_s = now_s
        if not listener.entry.order:
            self._orders += 1
            listener.entry.order = self._orders

    def _release_if_spare(self, listener: Listener, now_s: float) -> None:
        if self.admission.holds(listener.key) and spare(listener, now_s):
            self.admission.release(listener.key, now_s)
            self._refresh(listener, now_s)
            self._admit(now_s)

    def _admit(self, now_s: float) -> None:
        for key in self.admission.admit(now_s):
            self._granted(self.listeners[key], now_s)
            self._refresh(self.listeners[key], now_s)

    # Listeners

    def _refresh(self, listener: Listener, now_s: float) -> None:
        """Whether a lane may pick it; one without a slot still finishes the stream that it has open."""
        entry, key = listener.entry, listener.key
        may = self.admission.holds(key) or entry.lane is not None
        if not listener.jobs or listener.stepping or listener.ended or not may:
            if self._ready.pop(key, None) is not None:
                self.loads.waits(entry.unit, -1, now_s)
            return
        job = listener.jobs[0]
        estimates, chars, first = self.estimates[entry.unit], len(job.request.text), job.steps == 0
        entry.cut_s = max(job.cut_s, listener.granted_s)
        entry.est_s = estimates.step_s(chars, first=first)
        entry.est_high_s = estimates.step_high_s(chars, first=first)
        if key in self._ready:
            return
        self._ready[key] = entry
        self.loads.waits(entry.unit, +1, now_s)
        if self.loads.state(entry.unit) != "ready":
            self.notices.waits(listener, "loading", now_s)

    def _end(self, listener: Listener, now_s: float) -> None:
        """No step starts for it any more. Its slot comes free when the step that it is in has ended."""
        if not listener.ended:
            listener.ended = True
            self._refresh(listener, now_s)
            if not listener.stepping:
                self._leave(listener, now_s)
        if listener.closed and not listener.stepping:
            self.listeners.pop(listener.key, None)

    def _leave(self, listener: Listener, now_s: float) -> None:
        if listener.entry.lane is not None:
            self.lanes[listener.entry.lane].close(listener.spec.unit, listener.jobs[0])
            listener.entry.lane = None
        listener.jobs.clear()
        self.admission.release(listener.key, now_s)
        self._admit(now_s)

    def _refuse(self, listener: Listener, error: Exception, now_s: float) -> None:
        """Once it has been heard this is a failure of the job that was to follow."""
        if listener.ended:
            return
        if listener.made_any and listener.jobs:
            self._fail(listener, listener.jobs[0], error, now_s)
            return
        self.notices.refused(listener, error)
        self._end(listener, now_s)

    def _refuse_all(self, unit: str, now_s: float) -> None:
        """If it can't be had: all that wait for it."""
        failure = self.loads.refusal(unit, now_s)
        for listener in list(self.listeners.values()):
            if failure and listener.spec.unit == unit and listener.jobs and not listener.stepping:
                self._refuse(listener, failure, now_s)

    def _fail(self, listener: Listener, job: Job, error: Exception, now_s: float) -> None:
        if listener.ended:
            return
        self.notices.failed(listener, job, error)
        self._end(listener, now_s)

    # Steps

    def _begin_step(self, lane: LaneState, entries: Sequence[Entry], now_s: float) -> Step:
        turns = []
        for entry in entries:
            listener = self.listeners[entry.key]
            if entry.lane is None:
                entry.lane = lane.number
                lane.opening(entry.unit)
            listener.stepping = True
            self._refresh(listener, now_s)
            turns.append(Turn(listener, listener.jobs[0]))
        expected_s = max(entry.est_high_s for entry in entries)
        within_s = max(self._rules.stall_s, self._rules.stall_ratio * expected_s)
        return lane.begin(Step(entries[0].unit, tuple(turns)), now_s, within_s)

    def _lose(self, lane: LaneState, unit: str, error: ModelLost, now_s: float) -> None:
        """Its streams are gone with it; what hasn't been begun waits for its next load."""
        self.loads.lose(lane, unit, error, now_s)
        for listener in list(self.listeners.values()):
            if listener.entry.lane != lane.number or listener.spec.unit != unit:
                continue
            listener.entry.lane = None
            job = listener.jobs[0]
            job.stream = None
            if not listener.stepping:
                self._fail(listener, job, error, now_s)
        self._refuse_all(unit, now_s)

    def _finish_turn(self, lane: LaneState, outcome: Outcome, timing: StepTiming) -> None:
        listener, job, now_s = outcome.turn.listener, outcome.turn.job, timing.ended_s
        listener.stepping = False
        if listener.ended:
            self._leave(listener, now_s)
            if listener.closed:
                self.listeners.pop(listener.key, None)
        elif isinstance(outcome.result, ModelLost) and job.may_try_again(outcome.result):
            job.lost = True
            self._want(listener, now_s)
        elif isinstance(outcome.result, Exception):
            self._fail(listener, job, outcome.result, now_s)
        else:
            self._advance(lane, listener, job, outcome.result, timing)

    def _advance(
        self, lane: LaneState, listener: Listener, job: Job, chunk: Chunk, timing: StepTiming
    ) -> None:
        entry, unit = listener.entry, self._units[listener.spec.unit]
        audio_s = len(chunk.samples) / unit.facts.sample_rate_hz
        job.steps += 1
        job.audio_s += audio_s
        entry.make(audio_s, timing.ended_s, listener.spec.cushion_s)
        listener.made_any = True
        self.notices.made(listener, job, chunk, timing)
        if chunk.last:
            listener.jobs.popleft()
            lane.close(unit.name, job)
            entry.lane = None
            speech_s = job.audio_s * listener.spec.speed
            self.estimates[unit.name].observe_job(chars=len(job.request.text), speech_s=speech_s)
        if listener.jobs:
            self._want(listener, timing.ended_s)
        self._release_if_spare(listener, timing.ended_s)

    # Time

    def _watch(self, now_s: float) -> None:
        for lane in self.lanes:
            if now_s >= lane.deadline_s and not lane.stalled:
                self._stall(lane, now_s)

    def _stall(self, lane: LaneState, now_s: float) -> None:
        lane.stalled = True
        stuck = [turn.listener for turn in lane.step.turns] if lane.step is not None else []
        stuck += [one for one in self.listeners.values() if one.entry.lane == lane.number]
        if all(one.stalled for one in self.lanes):
            stuck += [one for one in self.listeners.values() if one.jobs]
        for listener in stuck:
            error = EngineStalled(listener.spec.unit, now_s - lane.started_s)
            if listener.jobs:
                self._fail(listener, listener.jobs[0], error, now_s)
            # The step may never end: the slot doesn't wait for it.
            self.admission.release(listener.key, now_s)
        self._admit(now_s)

    def _give_notices(self, now_s: float) -> None:
        for position, (key, wait_s) in enumerate(self.admission.waits_s().items(), 1):
            self.notices.waits(self.listeners[key], "busy", now_s, position, wait_s)
