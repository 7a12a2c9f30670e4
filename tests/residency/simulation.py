"""Roster, scheduler, admission and clocks in virtual time: lanes without threads, listeners without sockets."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import inf

import numpy as np

from engines.contract import Chunk, EngineError, EngineUnavailable, Samples, Word
from residency.learning import learn_from_probe
from residency.listener import Job, Listener, ListenerSpec, StepTiming, WaitReason
from residency.memory import Memory
from residency.planner import MemoryRules, Policy, Tenant
from residency.probe import Observed
from residency.roster import Roster
from residency.rules import Rules
from residency.scheduler import Entry
from residency.tenancy import at_work, tenant_of
from residency.units import Unit
from residency.work import Load, Outcome, Rest, Step, Tidy, Unload
from tests.fakes.models import CHARS_PER_S, RATE_HZ, request

SILENCE = np.zeros(RATE_HZ * 60, np.float32)
TICK_S = 0.25
UNLOAD_S = 0.3
TIDY_S = 0.03


@dataclass(frozen=True, slots=True)
class Trace:
    """What one client does."""

    at_s: float
    cuts: tuple[tuple[float, int], ...]
    """For each segment: how long after `at_s` its text is cut, and its characters."""
    spec: ListenerSpec
    cancel_s: float = inf
    pauses: tuple[tuple[float, float], ...] = ()
    """When, after `at_s`, it pauses and plays on."""
    stalls: tuple[tuple[float, float], ...] = ()
    """When its socket takes nothing, and takes again."""
    ends: bool = True


@dataclass(slots=True)
class DueGap:
    """A listener had nothing to play though text had been cut."""

    listener: int
    from_s: float
    until_s: float


@dataclass(eq=False, slots=True)
class Speaker:
    """Sends what it gets at once, as a session with a fast socket does."""

    world: "World"
    trace: Trace
    listener: Listener | None = None
    first_audio_s: float = inf
    finished_s: float = inf
    made: int = 0
    error: Exception | None = None
    waits: list[tuple[float, WaitReason, int | None]] = field(default_factory=list)

    def on_chunk(
        self, job: int, samples: Samples, words: tuple[Word, ...], last: bool, timing: StepTiming
    ) -> None:
        world, listener = self.world, self.listener
        assert listener is not None
        self.first_audio_s = min(self.first_audio_s, world.now_s)
        cut_s = self.trace.at_s + self.trace.cuts[job][0]
        gap = listener.sent(len(samples) / RATE_HZ, world.now_s)
        if gap is not None and listener.live and cut_s < gap.until_s:
            world.due_gaps.append(DueGap(listener.key, max(gap.from_s, cut_s), gap.until_s))
        self.made += last
        if self.made == len(self.trace.cuts) and self.trace.ends:
            self.end()

    def on_failed(self, job: int, error: Exception) -> None:
        self.error = error
        self.end()

    def on_refused(self, error: Exception) -> None:
        self.error = error
        self.end()

    def on_waiting(self, reason: WaitReason, position: int | None, wait_s: float | None) -> None:
        self.waits.append((self.world.now_s, reason, position))

    def end(self) -> None:
        if self.listener is not None and not self.listener.closed:
            self.finished_s = self.world.now_s
            self.world.roster.audience.close(self.listener, self.world.now_s)


class World:
    """`costs`: seconds of a step for so many characters' worth of audio (s) and streams, by unit."""

    def __init__(
        self,
        units: Iterable[Unit],
        *,
        cost: Callable[[str, float, int], float],
        rules: Rules | None = None,
        lanes: int = 1,
        probe: bool = True,
        load_s: float = 0.0,
        memory: MemoryRules | None = None,
        policies: Mapping[str, Policy] | None = None,
        check: Callable[["World", int, list[Entry], tuple[Entry, ...]], None] | None = None,
    ) -> None:
        self.units: Mapping[str, Unit] = {unit.name: unit for unit in units}
        self.roster = Roster(self.units, lanes=lanes, rules=rules or Rules(), governed=memory is not None)
        self.swaps: list[tuple[float, str]] = []
        """When which unit had been loaded."""
        self._memory = (
            None
            if memory is None
            else Memory(
                "gpu", dict.fromkeys(self.units, self), policies or {}, memory, now=lambda: self.now_s
            )
        )
        self.now_s = 100.0
        self.due_gaps: list[DueGap] = []
        self.speakers: list[Speaker] = []
        self.steps: list[tuple[float, float, tuple[int, ...]]] = []
        self.max_queued = 0
        self._cost = cost
        self._load_s = load_s
        self._check = check
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = count()
        self._busy = [False] * lanes
        self._wakes = [inf] * lanes
        if probe:
            for name, unit in self.units.items():
                learn_from_probe(self.roster.estimates[name], self._probe(unit))

    # What clients do

    def add(self, trace: Trace) -> Speaker:
        speaker = Speaker(self, trace)
        self.speakers.append(speaker)
        self.at(trace.at_s, lambda: self._arrive(speaker))
        return speaker

    def _arrive(self, speaker: Speaker) -> None:
        trace = speaker.trace
        listener = self.roster.audience.open(trace.spec, speaker, owner=self, replaces=None, now_s=self.now_s)
        speaker.listener = listener
        for after_s, chars in trace.cuts:
            self.at(trace.at_s + after_s, lambda chars=chars: self._submit(speaker, chars))  # type: ignore[misc]
        for from_s, until_s in trace.pauses:
            self.at(trace.at_s + from_s, lambda: self._report(speaker, paused=True))
            self.at(trace.at_s + until_s, lambda: self._report(speaker, paused=False))
        for from_s, until_s in trace.stalls:
            self.at(trace.at_s + from_s, lambda: listener.set_blocked(True))
            self.at(trace.at_s + until_s, lambda: listener.set_blocked(False))
        if trace.cancel_s < inf:
            self.at(trace.at_s + trace.cancel_s, speaker.end)

    def _submit(self, speaker: Speaker, chars: int) -> None:
        listener = speaker.listener
        assert listener is not None
        if listener.closed:
            return
        number = self.roster.audience.submit(listener, request("x" * chars), self.now_s, self.now_s)
        if number == len(speaker.trace.cuts) - 1 and speaker.trace.ends:
            listener.finish_text()

    def _report(self, speaker: Speaker, *, paused: bool) -> None:
        listener = speaker.listener
        assert listener is not None
        listener.played(listener.clock.playhead_s(self.now_s), paused, self.now_s)

    # The listeners' owner

    def moved(self, listener: Listener) -> None:
        self.roster.audience.moved(listener, self.now_s)

    def text_finished(self, listener: Listener) -> None:
        self.roster.audience.text_finished(listener, self.now_s)

    # Time

    def at(self, moment_s: float, act: Callable[[], None]) -> None:
        heappush(self._heap, (moment_s, next(self._serial), act))

    def run(self, *, most_s: float = 600.0) -> None:
        """Until nothing is left to happen."""
        end_s = self.now_s + most_s
        self.at(self.now_s, self._tick)
        while self._heap and self._heap[0][0] <= end_s:
            self.now_s, _, act = heappop(self._heap)
            act()
            self._deliver()
            self._replan()
            for lane in range(len(self._busy)):
                self._poke(lane)
            self.max_queued = max(self.max_queued, self.roster.audience.admission.queued)

    def _tick(self) -> None:
        self.roster.tick(self.now_s)
        self.roster.loads.stale = True
        alive = any(s.listener is None or not s.listener.closed for s in self.speakers)
        if alive or any(self._busy):
            self.at(self.now_s + TICK_S, self._tick)

    # The planner's side

    def tenant(self, unit: str, policy: Policy, *, swap_s: float) -> Tenant:
        return tenant_of(
            unit,
            policy,
            1,
            loads=self.roster.loads,
            lanes=self.roster.lanes,
            listeners=at_work(self.roster.audience.listeners.values(), self.roster.audience.admission, unit),
            now_s=self.now_s,
            swap_s=swap_s,
        )

    def direct(
        self, *, load: Iterable[str], leave: Iterable[str], refused: Mapping[str, EngineUnavailable]
    ) -> None:
        self.roster.direct(load=load, leave=leave, refused=refused, now_s=self.now_s)

    def ask_for(self, unit: str) -> None:
        self.roster.loads.ask_for(unit, self.now_s)

    def _replan(self) -> None:
        if self._memory is not None and self.roster.loads.stale:
            self.roster.loads.stale = False
            self._memory.replan()

    def _deliver(self) -> None:
        while events := self.roster.audience.notices.take():
            for listener, call in events:
                if not listener.closed:
                    call()

    # Lanes

    def _poke(self, lane: int) -> None:
        if self._busy[lane]:
            return
        ready = list(self.roster.audience.ready.values())
        work = self.roster.next_work(lane, self.now_s)
        match work.task:
            case Step() as step:
                entries = tuple(turn.listener.entry for turn in step.turns)
                if self._check is not None:
                    self._check(self, lane, ready, entries)
                self._begin(lane, step)
            case Load(unit=unit):
                self._busy[lane] = True
                self.at(self.now_s + self._load_s, lambda: self._loaded(lane, unit))
            case Unload(unit=unit):
                self._busy[lane] = True
                self.at(self.now_s + UNLOAD_S, lambda: self._unloaded(lane, unit))
            case Tidy():
                self._busy[lane] = True
                self.at(self.now_s + TIDY_S, lambda: self._tidied(lane))
            case Rest(until_s=until_s):
                if self._check is not None:
                    self._check(self, lane, ready, ())
                if until_s < inf and until_s != self._wakes[lane]:
                    self._wakes[lane] = until_s
                    self.at(max(until_s, self.now_s), lambda: None)

    def _begin(self, lane: int, step: Step) -> None:
        self._busy[lane] = True
        outcomes = []
        for turn in step.turns:
            assert not turn.listener.closed, "a step after a cancel"
            outcomes.append(Outcome(turn, self._speak(turn.job, step.unit)))
        audio_s = max(len(o.result.samples) for o in outcomes if isinstance(o.result, Chunk)) / RATE_HZ
        ended_s = self.now_s + self._cost(step.unit, audio_s, len(outcomes))
        started_s = self.now_s
        self.steps.append((started_s, ended_s, tuple(turn.listener.key for turn in step.turns)))
        self.at(ended_s, lambda: self._finish(lane, outcomes, started_s))

    def _finish(self, lane: int, outcomes: list[Outcome], started_s: float) -> None:
        self._busy[lane] = False
        self.roster.finish_step(lane, outcomes, started_s, self.now_s)

    def _loaded(self, lane: int, unit: str) -> None:
        self._busy[lane] = False
        self.swaps.append((self.now_s, unit))
        self.roster.finish_load(lane, unit, None, self.now_s, load_s=self._load_s)

    def _unloaded(self, lane: int, unit: str) -> None:
        self._busy[lane] = False
        self.roster.finish_unload(lane, unit, self.now_s)

    def _tidied(self, lane: int) -> None:
        self._busy[lane] = False
        self.roster.finish_tidy(lane)

    def _speak(self, job: Job, unit: str) -> Chunk | EngineError:
        facts = self.units[unit].facts
        if job.stream is None:
            job.stream = [len(job.request.text) * RATE_HZ // CHARS_PER_S]
        samples = job.stream[0]
        if facts.step_s is not None:
            samples = min(samples, int(facts.step_s * RATE_HZ))
        job.stream[0] -= samples
        return Chunk(SILENCE[:samples], last=job.stream[0] == 0)

    def _probe(self, unit: Unit) -> list[Observed]:
        observed = []
        full = min(unit.facts.max_batch, unit.facts.max_open)
        for batch in sorted({1, full}):
            for chars in (15, 40, 80, 120) * 2:
                whole_s = chars / CHARS_PER_S
                audio_s = whole_s if unit.facts.step_s is None else unit.facts.step_s
                for number in range(round(whole_s / audio_s)):
                    step_s = self._cost(unit.name, audio_s, batch)
                    observed.append(Observed(chars, number == 0, step_s, audio_s, batch))
        return observed
