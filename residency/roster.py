"""What each lane of a device does next, and what follows from what it has done.

Pure: no thread, lock or clock. Whoever calls it holds one lock around every call, and afterwards wakes the lanes
and delivers the audience's `notices` on the loop.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf

from engines.contract import Chunk, EngineError, EngineUnavailable, ModelLost
from residency.audience import Audience
from residency.costs import Costs
from residency.errors import EngineStalled
from residency.lane_state import LaneState
from residency.learning import learn_from_step
from residency.listener import Job, Listener, StepTiming
from residency.loads import Loads
from residency.rules import Rules
from residency.scheduler import Entry, pick
from residency.units import Unit
from residency.work import Canary, Load, Outcome, Rest, Step, Tidy, Unload, Work, take_turn

REFUSED_S = 1.0
"""What is pinned may be unpinned: then who was kept out by it is let in."""


class Roster:
    """`governed`: a planner decides what is loaded; else whatever is asked for is. `elsewhere`: see Admission."""

    def __init__(
        self,
        units: Mapping[str, Unit],
        *,
        lanes: int,
        rules: Rules,
        governed: bool = False,
        elsewhere: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._units = units
        self._rules = rules
        self.lanes = [LaneState(number, units) for number in range(lanes)]
        self.costs = Costs(units, capacity=rules.max_load * lanes, rules=rules)
        self.estimates = self.costs.estimates
        preload = (name for name in rules.preload if name in units)
        remote = (name for name, unit in units.items() if unit.fetches)
        self.loads = Loads(self.lanes, preload, governed=governed, remote=remote)
        self.audience = Audience(self.lanes, self.loads, self.costs, rules, elsewhere)

    def tick(self, now_s: float) -> None:
        """What time alone brings about; call it a few times a second."""
        self._watch(now_s)
        self.audience.tick(now_s)

    # A lane's side

    def next_work(self, number: int, now_s: float) -> Work:
        lane = self.lanes[number]
        closings = lane.take_closings()
        if (unit := self.loads.leaver(lane)) is not None:
            return Work(closings, lane.begin(Unload(unit), now_s, self._rules.stall_s))
        if (unit := self.loads.due(lane, now_s, idle=False)) is not None:
            return Work(closings, lane.begin(Load(unit), now_s, self._rules.load_s))
        self._end_waiting(lane, now_s)
        picked = pick(
            self.audience.ready.values(),
            now_s=now_s,
            lane=number,
            rooms=lane.rooms(self.loads.leaving),
            lanes=len(self.lanes),
        )
        if picked.entries:
            return Work(closings, self._begin_step(lane, picked.entries, now_s))
        if (unit := self.loads.due(lane, now_s, idle=True)) is not None:
            return Work(closings, lane.begin(Load(unit), now_s, self._rules.load_s))
        if (wish := self.audience.preparing.due(lane.loaded, self._spare_s(now_s))) is not None:
            return Work(closings, lane.begin(wish, now_s, self._rules.stall_s))
        if (unit := self._unproved(lane, now_s)) is not None:
            return Work(closings, lane.begin(Canary(unit), now_s, self._rules.stall_s))
        tidy_at_s = self._tidy_at_s(lane)
        if now_s >= tidy_at_s:
            return Work(closings, lane.begin(Tidy(), now_s, self._rules.stall_s))
        return Work(closings, Rest(now_s if closings else min(picked.wake_s, tidy_at_s)))

    def finish_step(self, number: int, outcomes: Sequence[Outcome], started_s: float, ended_s: float) -> None:
        lane = self.lanes[number]
        assert lane.step is not None  # noqa: S101 - a lane finishes what it was given
        unit = lane.step.unit
        timing = StepTiming(started_s, ended_s, (ended_s - started_s) / max(len(outcomes), 1))
        if not lane.stalled:
            rate_hz = self._units[unit].facts.sample_rate_hz
            learn_from_step(self.estimates[unit], outcomes, timing, rate_hz)
        lane.finish()
        lane.stepped_s = ended_s
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
        self.audience.refuse_all(unit, now_s)

    def finish_fetch(self, unit: str, error: Exception | None, now_s: float) -> None:
        self.loads.finish_fetch(unit, error, now_s)
        self.audience.refuse_all(unit, now_s)

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
        within_s = self._rules.canary_s * (2 if self.audience.admission.in_flight else 1)
        return next((unit for unit in able if now_s - lane.proved_s[unit] >= within_s), None)

    def finish_tidy(self, number: int) -> None:
        lane = self.lanes[number]
        lane.finish()
        lane.most_open = 0

    def _tidy_at_s(self, lane: LaneState) -> float:
        if lane.most_open < self._rules.crowd or self.audience.admission.in_flight:
            return inf
        return lane.stepped_s + self._rules.tidy_s

    def finish_prepare(self, number: int, unit: str, error: ModelLost | None, now_s: float) -> None:
        """With an error the lane has unloaded the model."""
        lane = self.lanes[number]
        lane.finish()
        if error is not None:
            self._lose(lane, unit, error, now_s)

    def _spare_s(self, now_s: float) -> float:
        """Until the first listener would notice that the device does something else."""
        holders = map(self.audience.listeners.__getitem__, self.audience.admission.holders())
        return min((one.run_dry_s(now_s) - now_s for one in holders if one.live), default=inf)

    def finish_unload(self, number: int, unit: str, now_s: float) -> None:
        lane = self.lanes[number]
        lane.finish()
        self.loads.finish_unload(lane, unit, now_s)
        if not self.loads.here(unit):
            self.audience.preparing.forget(unit)

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
            self.audience.refuse_all(unit, now_s)

    def lose_lane(self, number: int, now_s: float) -> None:
        """Its thread has ended."""
        lane = self.lanes[number]
        lane.loaded.clear()
        self._stall(lane, now_s)

    # Steps

    def _end_waiting(self, lane: LaneState, now_s: float) -> None:
        """Where streams that wait for text leave no room for others, or keep a model from leaving."""
        for unit, room in lane.rooms(self.loads.leaving).items():
            if not self._units[unit].facts.grows or not lane.open_of(unit):
                continue
            wanted = any(one.unit == unit and one.lane is None for one in self.audience.ready.values())
            if room.leaving or (room.free <= 0 and wanted):
                self.audience.finish_waiting(unit, lane.number, now_s)

    def _begin_step(self, lane: LaneState, entries: Sequence[Entry], now_s: float) -> Step:
        turns = []
        for entry in entries:
            listener = self.audience.listeners[entry.key]
            if entry.lane is None:
                entry.lane = lane.number
                lane.opening(entry.unit)
            listener.stepping = True
            self.audience.refresh(listener, now_s)
            turns.append(take_turn(listener))
        expected_s = max(entry.est_high_s for entry in entries)
        within_s = max(self._rules.stall_s, self._rules.stall_ratio * expected_s)
        return lane.begin(Step(entries[0].unit, tuple(turns)), now_s, within_s)

    def _lose(self, lane: LaneState, unit: str, error: ModelLost, now_s: float) -> None:
        """Its streams are gone with it; what hasn't been begun waits for its next load."""
        self.loads.lose(lane, unit, error, now_s)
        if not self.loads.here(unit):
            self.audience.preparing.forget(unit)
        for listener in list(self.audience.listeners.values()):
            if listener.entry.lane != lane.number or listener.spec.unit != unit:
                continue
            listener.entry.lane = None
            job = listener.jobs[0]
            job.stream = None
            if not listener.stepping:
                self.audience.fail(listener, job, error, now_s)
        self.audience.refuse_all(unit, now_s)

    def _finish_turn(self, lane: LaneState, outcome: Outcome, timing: StepTiming) -> None:
        listener, job, now_s = outcome.turn.listener, outcome.turn.job, timing.ended_s
        listener.stepping = False
        if listener.ended:
            self.audience.let_go(listener, now_s)
        elif isinstance(outcome.result, ModelLost) and job.may_try_again(outcome.result):
            job.lost = True
            self.audience.want(listener, now_s)
        elif isinstance(outcome.result, Exception):
            self.audience.fail(listener, job, outcome.result, now_s)
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
        if chunk.last and job.given is not None and not job.given.last:
            self.audience.fail(listener, job, EngineError("it ended before its text"), timing.ended_s)
            return
        job.wants_text = chunk.wants_text and not job.request.last and job.given is job.request
        self.audience.notices.made(listener, job, chunk, timing)
        if chunk.last:
            listener.jobs.popleft()
            lane.close(unit.name, job)
            entry.lane = None
            speech_s = job.audio_s * listener.spec.speed
            self.estimates[unit.name].observe_job(chars=len(job.request.text), speech_s=speech_s)
        if listener.has_work:
            self.audience.want(listener, timing.ended_s)
        self.audience.release_if_spare(listener, timing.ended_s)

    # Time

    def _watch(self, now_s: float) -> None:
        for lane in self.lanes:
            if now_s >= lane.deadline_s and not lane.stalled:
                self._stall(lane, now_s)

    def _stall(self, lane: LaneState, now_s: float) -> None:
        lane.stalled = True
        stuck = [turn.listener for turn in lane.step.turns] if lane.step is not None else []
        stuck += [one for one in self.audience.listeners.values() if one.entry.lane == lane.number]
        if all(one.stalled for one in self.lanes):
            stuck += [one for one in self.audience.listeners.values() if one.jobs]
        for listener in stuck:
            error = EngineStalled(listener.spec.unit, now_s - lane.started_s)
            if listener.jobs:
                self.audience.fail(listener, listener.jobs[0], error, now_s)
            # The step may never end: the slot doesn't wait for it.
            self.audience.admission.release(listener.key, now_s)
        self.audience.admit(now_s)
