"""The one thread that owns some models from load to unload, and makes their steps."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from engines.contract import Chunk, EngineError, EngineFault, ModelLost, OptionError
from residency.errors import without_frames
from residency.giving_back import give_back, keep_large_blocks_apart, resident_bytes, tidy
from residency.probe import Observed, probe, speak
from residency.prompts import LivePrompts
from residency.units import AnyModel, Unit
from residency.work import Canary, Closing, Load, Outcome, Prepare, Step, Tidy, Turn, Unload, Work
from voices.errors import VoicesError
from voices.reference import Clone

log = logging.getLogger(__name__)

_LOOK_S = 1.0


class Foreman(Protocol):
    """Whoever tells a lane what to do. Called from the lane's thread."""

    def next_work(self, number: int) -> Work | None:
        """Waits for something to do; None: stop."""

    def finish_step(
        self, number: int, outcomes: Sequence[Outcome], started_s: float, ended_s: float
    ) -> None: ...

    def finish_load(
        self, number: int, unit: str, error: Exception | None, observed: Sequence[Observed], load_s: float
    ) -> None: ...

    def finish_unload(self, number: int, unit: str) -> None: ...

    def finish_canary(self, number: int, unit: str, error: ModelLost | None) -> None: ...

    def prepared(self, unit: str, clone: Clone, took_s: float) -> None:
        """An uploaded voice can be spoken with."""

    def finish_prepare(self, number: int, unit: str, error: ModelLost | None) -> None: ...

    def finish_tidy(self, number: int) -> None: ...

    def measured(self, unit: str, peak_bytes: int, memory: Mapping[str, int] | None) -> None:
        """What a model has taken of memory at the most so far (0: not now), and what its runtime says of it."""

    def lane_ended(self, number: int) -> None: ...


class Lane:
    """Whatever an engine raises ends at this thread's edge as the failure of the streams concerned."""

    def __init__(
        self,
        number: int,
        foreman: Foreman,
        units: Mapping[str, Unit],
        *,
        name: str,
        now: Callable[[], float],
        live_prompt_bytes: int,
    ) -> None:
        self.number = number
        self._foreman = foreman
        self._units = units
        self._now = now
        self._models: dict[str, AnyModel] = {}
        self._prompts: dict[str, LivePrompts] = {}
        self._live_prompt_bytes = live_prompt_bytes
        self._look_s = 0.0
        self._open: dict[int, Closing] = {}
        """By the stream's identity."""
        # A daemon: one that is wedged in a driver can't be ended, and mustn't keep the process.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self, timeout_s: float) -> bool:
        """Whether it has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        keep_large_blocks_apart()
        try:
            while (work := self._foreman.next_work(self.number)) is not None:
                self._close(work.closings)
                match work.task:
                    case Step() as step:
                        self._step(step)
                    case Load(unit=unit):
                        self._load(unit)
                    case Unload(unit=unit):
                        self._unload_one(unit)
                        give_back()
                        self._foreman.finish_unload(self.number, unit)
                    case Canary(unit=unit):
                        self._try(unit)
                    case Prepare(unit=unit, clone=clone):
                        self._prepare(unit, clone)
                    case Tidy():
                        tidy()
                        self._foreman.finish_tidy(self.number)
        finally:
            self._unload()
            self._foreman.lane_ended(self.number)

    def _step(self, step: Step) -> None:
        model = self._models[step.unit]
        outcomes: list[Outcome] = []
        prompts: list[tuple[Turn, Any]] = []
        for turn in step.turns:
            try:
                prompts.append((turn, self._prompt(step.unit, turn)))
            except Exception as error:  # noqa: BLE001 - the device thread's edge
                outcomes.append(Outcome(turn, _as_known_error(error)))
        # What a prompt took isn't the cost of speech, which later steps are foretold by.
        started_s = self._now()
        turns: list[Turn] = []
        for turn, prompt in prompts:
            failure = self._start(model, turn, prompt)
            if failure is None:
                turns.append(turn)
            else:
                outcomes.append(Outcome(turn, failure))
        if turns:
            results = self._advance(model, [turn.job.stream for turn in turns])
            outcomes += [Outcome(turn, result) for turn, result in zip(turns, results, strict=True)]
        for fault in {one.result for one in outcomes if isinstance(one.result, EngineFault)}:
            log.error("%s raised %s", step.unit, fault, exc_info=fault.__cause__)
        if any(isinstance(outcome.result, ModelLost) for outcome in outcomes):
            self._unload_one(step.unit)
        self._foreman.finish_step(self.number, outcomes, started_s, self._now())
        self._look(step.unit)

    def _prompt(self, unit: str, turn: Turn) -> Any:
        """None for a voice of the engine's own, or when the stream is open."""
        clone = turn.listener.spec.clone
        if clone is None or turn.job.stream is not None or turn.listener.ended:
            return None
        return self._prompt_of(unit, clone)

    def _prompt_of(self, unit: str, clone: Clone) -> Any:
        started_s = self._now()
        prompt = self._prompts[unit].get(clone)
        self._foreman.prepared(unit, clone, self._now() - started_s)
        return prompt

    def _prepare(self, unit: str, clone: Clone) -> None:
        """What goes wrong is told to whoever speaks with it."""
        lost: ModelLost | None = None
        try:
            self._prompt_of(unit, clone)
        except ModelLost as error:
            lost = error
            self._unload_one(unit)
        except Exception:
            log.exception("%s can't prepare the voice %s", unit, clone.voice_id)
        self._foreman.finish_prepare(self.number, unit, lost)

    def _start(self, model: AnyModel, turn: Turn, prompt: Any) -> Exception | None:
        if turn.listener.ended:
            return EngineError("cancelled")
        if turn.job.stream is None:
            try:
                stream = model.start(turn.request, prompt)
                turn.job.stream = stream
                self._open[id(stream)] = Closing(turn.listener.spec.unit, stream)
            except Exception as error:  # noqa: BLE001 - the device thread's edge
                return _as_known_error(error)
        elif turn.growth is not None:
            try:
                model.extend(turn.job.stream, turn.growth.text, turn.growth.last)
            except Exception as error:  # noqa: BLE001 - the device thread's edge
                return _as_engine_error(error)
        return None

    def _advance(self, model: AnyModel, streams: list[Any]) -> Sequence[Chunk | EngineError]:
        try:
            results = model.step(streams)
        except Exception as error:  # noqa: BLE001 - the device thread's edge
            return [_as_engine_error(error)] * len(streams)
        if len(results) != len(streams):
            return [EngineError(f"{len(results)} results for {len(streams)} streams")] * len(streams)
        return results

    def _close(self, closings: Sequence[Closing]) -> None:
        for closing in closings:
            self._open.pop(id(closing.stream), None)
            model = self._models.get(closing.unit)
            if model is None:
                continue
            try:
                model.close(closing.stream)
            except ModelLost as error:
                # The next step brings it to light.
                log.warning("%s: %s", closing.unit, error)
            except Exception:
                log.exception("a stream of %s couldn't be closed", closing.unit)

    def _load(self, name: str) -> None:
        unit = self._units[name]
        started_s, before_bytes = self._now(), resident_bytes()
        observed: list[Observed] = []
        failure: Exception | None = None
        try:
            model = unit.load()
            self._models[name] = model
            self._prompts[name] = LivePrompts(unit.prompts, model, max_bytes=self._live_prompt_bytes)
            observed = probe(model, unit.probes, unit.facts, self._now)
        except Exception as error:
            log.exception("%s couldn't be loaded", name)
            failure = without_frames(error)
            self._unload_one(name)
        load_s = self._now() - started_s
        give_back()
        if failure is None:
            self._measure(name, resident_bytes() - before_bytes)
        self._foreman.finish_load(self.number, name, failure, observed, load_s)

    def _try(self, name: str) -> None:
        """Whether it still speaks; one that doesn't is unloaded."""
        unit, lost = self._units[name], None
        try:
            speak(self._models[name], unit.probes[:1], unit.facts, self._now)
        except Exception as error:
            log.exception("%s can't speak any more", name)
            lost = error if isinstance(error, ModelLost) else ModelLost(f"{name} can't speak: {error}")
            self._unload_one(name)
        self._foreman.finish_canary(self.number, name, lost)

    def _measure(self, name: str, grown_bytes: int | None = None) -> None:
        own = getattr(self._models[name], "peak_bytes", None)
        try:
            told = None if own is None else own()
        except EngineError:
            return
        peak_bytes = grown_bytes if told is None else told
        self._foreman.measured(name, max(0, peak_bytes or 0), self._memory(name))

    def _look(self, name: str) -> None:
        """How much memory it takes, once a second: of a hosted one it is a question."""
        if name in self._models and self._now() >= self._look_s:
            self._look_s = self._now() + _LOOK_S
            self._foreman.measured(name, 0, self._memory(name))

    def _memory(self, name: str) -> Mapping[str, int] | None:
        own: Callable[[], Mapping[str, int] | None] = getattr(self._models[name], "memory", lambda: None)
        try:
            return own()
        except EngineError:
            return None

    def _unload(self) -> None:
        self._close(list(self._open.values()))
        while self._models:
            self._unload_one(next(iter(self._models)))

    def _unload_one(self, name: str) -> None:
        self._prompts.pop(name, None)
        for key in [key for key, closing in self._open.items() if closing.unit == name]:
            del self._open[key]
        if name not in self._models:
            return
        self._measure(name)
        try:
            self._models.pop(name).unload()
        except Exception:
            log.exception("%s couldn't be unloaded", name)


def _as_known_error(error: Exception) -> Exception:
    return error if isinstance(error, VoicesError | OptionError) else _as_engine_error(error)


def _as_engine_error(error: Exception) -> EngineError:
    if isinstance(error, EngineError):
        return error
    failure = EngineFault(f"{type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure
