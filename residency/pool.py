"""The lanes of one device and the lock that they share with the event loop."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import inf

from engines.contract import EngineUnavailable, ModelLost, Request
from residency.errors import EngineStalled
from residency.fetching import fetch_apart
from residency.footprints import Footprints
from residency.lane import Lane
from residency.learning import learn_from_probe
from residency.listener import Listener, ListenerHandler, ListenerSpec
from residency.loads import Loads
from residency.notices import Event
from residency.planner import Policy, Tenant
from residency.probe import Observed
from residency.roster import Roster
from residency.rules import Rules
from residency.tenancy import at_work, tenant_of
from residency.units import Unit, UnitStatus
from residency.work import Outcome, Rest, Work
from voices.reference import Clone


class Pool:
    """Critical sections are short: a pick at the longest. Handlers are called outside the lock, on the loop."""

    def __init__(
        self,
        name: str,
        units: Mapping[str, Unit],
        *,
        rules: Rules,
        now: Callable[[], float],
        lanes: int,
        governed: bool,
        footprints: Footprints,
    ) -> None:
        """`governed`: see Roster."""
        self.name = name
        self.units = units
        self.device = next(iter(units.values())).device
        self._rules = rules
        self.capacity = rules.max_load * lanes
        self._now = now
        self._footprints = footprints
        self.rivals: tuple[Pool, ...] = ()
        """Other lanes of the same accelerator, whose time is one."""
        self.promised = 0.0
        """Of it, to those who hold slots; others read it without the lock."""
        self._roster = Roster(
            units, lanes=lanes, rules=rules, governed=governed, elsewhere=self._promised_elsewhere
        )
        self._changed = threading.Condition(threading.Lock())
        self._stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_stale: Callable[[], None] = _nothing
        self._posted = False
        self._undelivered: deque[Event] = deque()
        self._load_ended = asyncio.Event()
        self._lanes = [
            Lane(
                number,
                self,
                units,
                name=f"lane-{name}-{number}",
                now=now,
                live_prompt_bytes=rules.live_prompt_bytes,
            )
            for number in range(lanes)
        ]

    def start(self, loop: asyncio.AbstractEventLoop, on_stale: Callable[[], None]) -> None:
        """`on_stale` is called on the loop when what is in memory has to be planned again."""
        self._loop = loop
        self._on_stale = on_stale
        for lane in self._lanes:
            lane.start()
        with self._changed:
            self._settle()

    def stop(self, timeout_s: float) -> bool:
        """Blocks, so not for the loop; False: a lane hasn't come back."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        deadline_s = self._now() + timeout_s
        joined = [lane.join(max(0.0, deadline_s - self._now())) for lane in self._lanes]
        return all(joined)

    # The loop's side

    def open(self, spec: ListenerSpec, handler: ListenerHandler, replaces: Listener | None) -> Listener:
        with self._changed:
            listener = self._roster.audience.open(
                spec, handler, owner=self, replaces=replaces, now_s=self._now()
            )
            self._settle()
        return listener

    def submit(self, listener: Listener, request: Request, cut_s: float) -> int:
        with self._changed:
            number = self._roster.audience.submit(listener, request, cut_s, self._now())
            self._settle()
        return number

    def extend(self, listener: Listener, job: int, text: str, *, last: bool) -> bool:
        with self._changed:
            taken = self._roster.audience.extend(listener, job, text, last=last, now_s=self._now())
            self._settle()
        return taken

    def replay(self, listener: Listener, audio_s: float) -> None:
        with self._changed:
            listener.entry.make(audio_s, self._now(), listener.spec.cushion_s)
            self._changed.notify_all()

    def close(self, listener: Listener) -> None:
        if not listener.closed:
            with self._changed:
                self._roster.audience.close(listener, self._now())
                self._settle()

    def moved(self, listener: Listener) -> None:
        with self._changed:
            if self._roster.audience.moved(listener, self._now()):
                self._settle()
            else:
                self._post()

    def text_finished(self, listener: Listener) -> None:
        with self._changed:
            self._roster.audience.text_finished(listener, self._now())
            self._settle()

    def tick(self) -> None:
        with self._changed:
            self._roster.tick(self._now())
            self._settle()

    def prepare(self, unit: str, clone: Clone) -> None:
        with self._changed:
            if self._roster.loads.here(unit):
                self._roster.audience.preparing.wish(unit, clone)
                self._settle()

    # What is in memory

    def ask_for(self, unit: str) -> None:
        """Have it loaded on every lane."""
        with self._changed:
            self._roster.loads.ask_for(unit, self._now())
            self._settle()

    async def loaded(self, unit: str) -> None:
        """Until every lane has it; raises what kept it from being loaded. Cancelling leaves the load going on."""
        self.ask_for(unit)
        await self._until(lambda loads: loads.settled(unit))
        with self._changed:
            failure = self._roster.loads.failure(unit)
        if failure is not None:
            raise failure
        if self.wedged:
            raise EngineStalled(unit, self._rules.load_s)

    async def unloaded(self, unit: str) -> None:
        """Until no lane has it."""
        await self._until(lambda loads: not loads.here(unit))

    async def _until(self, reached: Callable[[Loads], bool]) -> None:
        while True:
            ended = self._load_ended
            with self._changed:
                if reached(self._roster.loads):
                    return
            await ended.wait()

    def tenant(self, unit: str, policy: Policy, *, swap_s: float) -> Tenant:
        with self._changed:
            return tenant_of(
                unit,
                policy,
                self._footprints.of(self.units[unit]) * len(self._lanes),
                loads=self._roster.loads,
                lanes=self._roster.lanes,
                listeners=at_work(
                    self._roster.audience.listeners.values(), self._roster.audience.admission, unit
                ),
                now_s=self._now(),
                swap_s=swap_s,
            )

    def direct(
        self, *, load: Iterable[str], leave: Iterable[str], refused: Mapping[str, EngineUnavailable]
    ) -> None:
        with self._changed:
            self._roster.direct(load=load, leave=leave, refused=refused, now_s=self._now())
            self._settle()
            if refused:
                self._post_load_ended()

    # Questions

    @property
    def load(self) -> float:
        with self._changed:
            promised = self._roster.audience.admission.load + self._promised_elsewhere()
            return min(1.0, promised / len(self._lanes))

    def _promised_elsewhere(self) -> float:
        return sum(rival.promised for rival in self.rivals)

    @property
    def in_flight(self) -> int:
        return self._roster.audience.admission.in_flight

    @property
    def queued(self) -> int:
        return self._roster.audience.admission.queued

    @property
    def wedged(self) -> bool:
        return any(lane.stalled for lane in self._roster.lanes)

    @property
    def open_streams(self) -> int:
        return sum(lane.open_streams for lane in self._roster.lanes)

    @property
    def open_listeners(self) -> int:
        return len(self._roster.audience.listeners)

    def max_streams(self, unit: str) -> float:
        with self._changed:
            return self._roster.costs.max_streams(unit)

    def full(self, unit: str) -> bool:
        with self._changed:
            return not self._roster.audience.admission.has_place(unit)

    def retry_after_s(self) -> float:
        with self._changed:
            return self._roster.audience.admission.retry_after_s()

    def step_s(self, unit: str, chars: int) -> float:
        with self._changed:
            return self._roster.estimates[unit].step_high_s(chars)

    def speech_s(self, unit: str, chars: int) -> float:
        with self._changed:
            return self._roster.estimates[unit].speech_s(chars)

    def status(self, name: str, policy: Policy) -> UnitStatus:
        with self._changed:
            roster, estimates = self._roster, self._roster.estimates[name]
            failure, proved_s = roster.loads.failure(name), roster.loads.proved_s(name)
            lasts_s = 3 * self._rules.canary_s if self.units[name].probes else inf
            return UnitStatus(
                name=name,
                device=self.units[name].device,
                state=roster.loads.state(name),
                facts=self.units[name].facts,
                healthy=proved_s is not None and self._now() - proved_s <= lasts_s and not self.wedged,
                in_flight=roster.audience.admission.in_flight_of(name),
                cost=estimates.cost() if estimates.known else None,
                realtime=roster.costs.realtime(name),
                policy=policy,
                footprint_bytes=self._footprints.of(self.units[name]),
                memory=self._footprints.memory_of(self.units[name]),
                last_error=None if failure is None else str(failure),
                load_s=roster.loads.load_s.get(name),
            )

    # A lane's side

    def next_work(self, number: int) -> Work | None:
        with self._changed:
            while not self._stopping:
                now_s = self._now()
                work = self._roster.next_work(number, now_s)
                self._post()
                if work.closings or not isinstance(work.task, Rest):
                    return work
                until_s = work.task.until_s
                self._changed.wait(None if until_s == inf else max(0.0, until_s - now_s))
        return None

    def finish_step(self, number: int, outcomes: Sequence[Outcome], started_s: float, ended_s: float) -> None:
        with self._changed:
            self._roster.finish_step(number, outcomes, started_s, ended_s)
            self._settle()

    def finish_load(
        self, number: int, unit: str, error: Exception | None, observed: Sequence[Observed], load_s: float
    ) -> None:
        with self._changed:
            learn_from_probe(self._roster.estimates[unit], observed)
            self._roster.finish_load(number, unit, error, self._now(), load_s=load_s)
            self._settle()
            self._post_load_ended()

    def finish_unload(self, number: int, unit: str) -> None:
        with self._changed:
            self._roster.finish_unload(number, unit, self._now())
            self._settle()
            self._post_load_ended()

    def finish_canary(self, number: int, unit: str, error: ModelLost | None) -> None:
        with self._changed:
            self._roster.finish_canary(number, unit, error, self._now())
            self._settle()

    def prepared(self, unit: str, clone: Clone, took_s: float) -> None:
        with self._changed:
            self._roster.audience.preparing.observe(unit, clone, took_s)

    def finish_prepare(self, number: int, unit: str, error: ModelLost | None) -> None:
        with self._changed:
            self._roster.finish_prepare(number, unit, error, self._now())
            self._settle()

    def finish_tidy(self, number: int) -> None:
        with self._changed:
            self._roster.finish_tidy(number)

    def measured(self, unit: str, peak_bytes: int, memory: Mapping[str, int] | None) -> None:
        self._footprints.measured(self.units[unit], peak_bytes, memory)

    def lane_ended(self, number: int) -> None:
        with self._changed:
            if not self._stopping:
                self._roster.lose_lane(number, self._now())
                self._settle()
                self._post_load_ended()

    # Bringing files here, beside the lanes: others speak meanwhile

    def _begin_fetches(self) -> None:
        """The lock is held."""
        if self._loop is None or self._stopping:
            return
        for unit in self._roster.loads.begin_fetches(self._now()):
            fetch_apart(self.units[unit], partial(self._finish_fetch, unit))

    def _finish_fetch(self, unit: str, failure: Exception | None) -> None:
        with self._changed:
            self._roster.finish_fetch(unit, failure, self._now())
            self._settle()
            self._post_load_ended()

    # From the lanes to the loop

    def _settle(self) -> None:
        self._begin_fetches()
        self.promised = self._roster.audience.admission.promised
        self._changed.notify_all()
        self._post()

    def _post(self) -> None:
        """One wake-up for all results that wait. The lock is held."""
        if self._loop is None or self._stopping:
            return
        if self._roster.loads.stale:
            self._roster.loads.stale = False
            self._loop.call_soon_threadsafe(self._on_stale)
        if self._roster.audience.notices and not self._posted:
            self._posted = True
            self._loop.call_soon_threadsafe(self._deliver)

    def _post_load_ended(self) -> None:
        if self._loop is not None and not self._stopping:
            self._loop.call_soon_threadsafe(self._end_load)

    def _end_load(self) -> None:
        ended, self._load_ended = self._load_ended, asyncio.Event()
        ended.set()

    def _deliver(self) -> None:
        with self._changed:
            self._posted = False
            self._undelivered.extend(self._roster.audience.notices.take())
        try:
            while self._undelivered:
                listener, call = self._undelivered.popleft()
                if not listener.closed:
                    call()
        finally:
            # A handler that raises doesn't keep the others' audio back.
            if self._undelivered and self._loop is not None:
                self._loop.call_soon(self._deliver)


def _nothing() -> None:
    pass
