"""One connection's conversation: typed client messages in, typed server messages out.

Knows no socket and no encoding. A codec with one reader and one writer drives it: the reader calls `receive`,
the writer awaits `next`, sends, and calls `sent`.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self, assert_never

from protocol import messages as wire
from protocol.conversation import Apply, Close, Fail, Ignore, Refuse, ServerConversation, Verdict
from protocol.errors import BadMessage, make_error, make_refusal
from residency.listener import StepTiming
from ws_server.auth import Identity
from ws_server.errors import error_of
from ws_server.plan import NO_CAPS, Caps, Plan, Refusal
from ws_server.quotas import Allowance
from ws_server.receipts import Receipts
from ws_server.send_watch import SendWatch
from ws_server.services import Services
from ws_server.text.segment import TextSegment
from ws_server.utterance import Utterance

_CONTROL_BACKLOG = 1024
"""Messages that wait for a client which sends but doesn't read, before it is taken for hostile."""


@dataclass(frozen=True, slots=True)
class CloseConnection:
    """What the socket is handed instead of a message when it is all over."""

    code: int
    reason: str


class Session:
    """Lives on the event loop. `async with` it: leaving cancels all that is open."""

    def __init__(self, services: Services, identity: Identity, *, peer: str, caps: Caps = NO_CAPS) -> None:
        self.name = services.new_session_name()
        self.identity = identity
        self.peer = peer
        self._services = services
        self._limits = services.limits
        self._caps = caps
        self._conversation = ServerConversation(services.limits)
        self._control: deque[wire.ServerMessage] = deque()
        self._utterances: dict[str, Utterance] = {}
        self._receipts = Receipts()
        self._opened = 0
        """Utterances so far, for a token that is good for so many."""
        self._allowance = Allowance(services.quotas.of(identity.name), services.settings.messages_per_s)
        self._speaking: Utterance | None = None
        """Whose frame was handed out last."""
        self._wake = asyncio.Event()
        self._closing: CloseConnection | None = None
        self._drain_at_s = math.inf
        self._watch = SendWatch(self._set_blocked)
        self._idle_since_s = time.monotonic()
        """The last message came, or the last utterance ended."""
        self._say(services.hello(self.name, identity))

    async def __aenter__(self) -> Self:
        self._services.sessions.add(self)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._services.sessions.discard(self)
        self._watch.close()
        for utterance in list(self._utterances.values()):
            utterance.release()
            self._forget(utterance)
            self._services.observer.utterance_dropped(self, utterance)

    # The reader's side -----------------------------------------------------------------------------------

    def receive(self, message: wire.ClientMessage) -> None:
        if self.closing:
            return
        now_s = time.monotonic()
        if self._counted(now_s):
            self._act(self._conversation.receive(message, now_s), now_s)

    def receive_bad(self, error: BadMessage) -> None:
        if self.closing:
            return
        now_s = time.monotonic()
        if self._counted(now_s):
            self._act(self._conversation.receive_bad(error, now_s), now_s)

    @property
    def closing(self) -> bool:
        """Its end is decided: what still comes in is ignored."""
        return self._closing is not None

    def _counted(self, now_s: float) -> bool:
        """False: one too many."""
        self._idle_since_s = now_s
        wait_s = self._allowance.count_message(now_s)
        if wait_s > 0:
            self._services.metrics.rate_limited(self.identity.name)
            self._say(wire.Bye(reason="policy", retry_after_ms=math.ceil(wait_s * 1000)))
            self._close(1008, "too many messages")
        return wait_s == 0

    def _rate_limited(self, wait_s: float, id: str | None = None) -> wire.Error:  # noqa: A002 - the wire's name
        self._services.metrics.rate_limited(self.identity.name)
        return make_error(
            "rate_limited",
            "more than this client may ask for",
            id=id,
            retry_after_ms=math.ceil(wait_s * 1000),
        )

    def _act(self, verdict: Verdict, now_s: float) -> None:
        match verdict:
            case Apply():
                self._apply(verdict, now_s)
            case Ignore():
                return
            case Refuse(messages, cancels, receipts, played_ms):
                self._stop(cancels, receipts, "replaced", played_ms, now_s)
                self._services.observer.messages_refused(self.name, messages)
                self._say(*messages)
            case Fail(failed_id, error):
                self._utterances[failed_id].fail(error, now_s)
            case Close(code, reason, messages):
                self._services.observer.messages_refused(self.name, messages)
                self._say(*messages)
                self._close(code, reason)
            case _:
                assert_never(verdict)

    def _apply(self, verdict: Apply, now_s: float) -> None:
        match verdict.message:
            case wire.Open() as opened:
                self._open(opened, verdict.cancels, verdict.receipts, now_s)
            case wire.Text(id=target, text=text):
                self._feed(self._utterances[target], text, now_s)
            case wire.Flush(id=target, mark=mark):
                utterance = self._utterances[target]
                if verdict.text_before:
                    utterance.feed(verdict.text_before, now_s)
                utterance.flush(mark, now_s)
            case wire.End(id=target):
                utterance = self._utterances[target]
                if verdict.text_before:
                    utterance.feed(verdict.text_before, now_s)
                utterance.end(now_s)
            case wire.Cancel(played_ms=played_ms):
                self._stop(verdict.cancels, verdict.receipts, "cancelled", played_ms, now_s)
            case wire.CancelAll():
                self._stop(verdict.cancels, verdict.receipts, "cancelled", None, now_s)
            case wire.Played(id=target, ms=ms, state=state):
                self._utterances[target].played(ms, paused=state == "paused", now_s=now_s)
            case wire.Ping(t=t):
                wait_s = self._allowance.message_wait_s(now_s)
                self._say(self._rate_limited(wait_s) if wait_s else wire.Pong(t=t))
            case _:
                assert_never(verdict.message)

    def _feed(self, utterance: Utterance, text: str, now_s: float) -> None:
        wait_s = self._allowance.take_text(len(text), now_s)
        if wait_s:
            utterance.fail(self._rate_limited(wait_s, utterance.id), now_s)
        else:
            utterance.feed(text, now_s)

    def _open(self, opened: wire.Open, cancels: Sequence[str], receipts: Sequence[str], now_s: float) -> None:
        replaced = self._utterances.get(cancels[0]) if cancels else None
        utterance: Utterance | None = None
        refusal: wire.Error | None = None
        try:
            utterance = self._begin(opened, replaced, now_s)
        except Refusal as error:
            refusal = error_of(error, opened.id)
        # The old one's end precedes every word about the new, and comes even if there is no new one.
        self._stop(cancels, receipts, "replaced", opened.replaced_played_ms, now_s)
        self._receipts.drop(opened.id)
        if utterance is not None:
            self._utterances[opened.id] = utterance
            self._allowance.quota.open_stream()
        elif refusal is not None:
            self._say(*make_refusal(refusal, opened.tag))
            self._services.observer.utterance_refused(self, opened, refusal)

    def _begin(self, opened: wire.Open, replaced: Utterance | None, now_s: float) -> Utterance:
        """Raises Refusal."""
        if self._drain_at_s != math.inf:
            raise Refusal("shutting_down", "the server is about to stop; try another")
        self._opened += 1
        most = self.identity.limits.utterances
        if most is not None and self._opened > most:
            raise Refusal("too_many_utterances", f"this token is good for {most}", value=most)
        wait_s = self._allowance.open_wait_s(now_s, leaving=0 if replaced is None else 1)
        if wait_s:
            self._services.metrics.rate_limited(self.identity.name)
            raise Refusal("rate_limited", "more than this client may ask for", retry_after_s=wait_s)
        return Utterance(
            opened,
            self._plan(opened),
            dispatcher=self._services.dispatcher,
            cache=self._services.cache,
            turns=self._services.turns,
            limits=self._limits,
            owner=self,
            client=self.identity.name,
            connection=self.name,
            replaces=None if replaced is None else replaced.listener,
            blocked=self._watch.blocked,
            now_s=now_s,
        )

    def _plan(self, opened: wire.Open) -> Plan:
        plan = self._services.catalogue.resolve(opened, self.identity)
        return plan if self._caps == NO_CAPS else replace(plan, rules=self._caps.of(plan.rules))

    def utterance(self, id: str) -> Utterance | None:  # noqa: A002 - the wire's name
        """That is open."""
        return self._utterances.get(id)

    def _stop(
        self,
        cancels: Sequence[str],
        receipts: Sequence[str],
        reason: wire.DoneReason,
        played_ms: float | None,
        now_s: float,
    ) -> None:
        for target in cancels:
            self._utterances[target].stop(reason, played_ms, now_s)
        for target in receipts:
            self._say(self._receipts.answer(target, played_ms, now_s))

    # What its utterances say -------------------------------------------------------------------------------

    def changed(self) -> None:
        self._wake.set()

    def stepped(self, utterance: Utterance, timing: StepTiming, audio_s: float) -> None:
        self._services.metrics.step(utterance.plan.engine, timing.compute_s, audio_s)

    def cut(self, utterance: Utterance, segment: TextSegment) -> None:
        self._services.observer.segment_cut(self, utterance, segment.speakable)

    def finished(self, utterance: Utterance, messages: Sequence[wire.ServerMessage]) -> None:
        """It ended before its audio did: what it still had to send is dropped, its last words go first."""
        if self._utterances.get(utterance.id) is utterance:
            self._forget(utterance)
        self._say(*messages)
        for message in messages:
            if isinstance(message, wire.Done):
                self._services.observer.utterance_done(self, utterance, message)

    def _forget(self, utterance: Utterance) -> None:
        del self._utterances[utterance.id]
        self._idle_since_s = time.monotonic()
        self._allowance.quota.close_stream(self._idle_since_s - utterance.tally.opened_s)

    # The writer's side ---------------------------------------------------------------------------------------

    async def next(self) -> wire.ServerMessage | CloseConnection:
        """What to send now. The first of control messages, else the frame whose listener runs dry first."""
        while True:
            now_s = time.monotonic()
            self._keep_time(now_s)
            if self._control:
                return self._control.popleft()
            if self._closing is not None:
                return self._closing
            message, wake_s = self._pick(now_s)
            if message is not None:
                self._conversation.send(message, now_s)
                if isinstance(message, wire.Done):
                    self._complete(message)
                return message
            await self._sleep(min(wake_s, self._next_moment_s()) - now_s)

    def sent(self, message: wire.ServerMessage) -> None:
        """The send of `message` has returned."""
        if isinstance(message, wire.Audio):
            utterance = self._speaking
            # It may have been stopped meanwhile, and its id may be another's now.
            if utterance is not None and self._utterances.get(message.id) is utterance:
                now_s = time.monotonic()
                utterance.sent(message, now_s)
                self._services.metrics.lead(utterance.listener.clock.in_hand_s(now_s))

    def blocked(self, blocked: bool) -> None:
        """Whether a send hasn't returned. Most return at once, so only one that doesn't holds its steps up."""
        if blocked:
            self._watch.begin()
        else:
            self._watch.end()

    def _set_blocked(self, blocked: bool) -> None:
        for utterance in self._utterances.values():
            utterance.set_blocked(blocked)

    def _pick(self, now_s: float) -> tuple[wire.ServerMessage | None, float]:
        chosen: Utterance | None = None
        least_s = wake_s = math.inf
        for utterance in self._utterances.values():
            message = utterance.outgoing.control()
            if message is not None:
                return message, now_s
            if not utterance.outgoing.has_audio:
                continue
            at_s = utterance.may_send_at_s(now_s)
            if at_s > now_s:
                wake_s = min(wake_s, at_s)
                continue
            in_hand_s = utterance.listener.clock.in_hand_s(now_s)
            if chosen is None or (utterance.lead_s < math.inf, -in_hand_s) > (
                chosen.lead_s < math.inf,
                -least_s,
            ):
                chosen, least_s = utterance, in_hand_s
        if chosen is None:
            return None, wake_s
        self._speaking = chosen
        return chosen.outgoing.audio(), now_s

    def _complete(self, done: wire.Done) -> None:
        utterance = self._utterances[done.id]
        self._forget(utterance)
        utterance.release()
        self._receipts.keep(done, utterance.recording)
        self._services.observer.utterance_done(self, utterance, done)

    async def _sleep(self, delay_s: float) -> None:
        timer = None
        if delay_s < math.inf:
            timer = asyncio.get_running_loop().call_later(max(delay_s, 0.0), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            if timer is not None:
                timer.cancel()
        self._wake.clear()

    # Time, ends ------------------------------------------------------------------------------------------------

    def drain(self, deadline_s: float) -> None:
        """No new work; close when the last open utterance has ended, at `deadline_s` (monotonic) at the latest."""
        now_s = time.monotonic()
        self._drain_at_s = deadline_s
        self._say(wire.Bye(reason="draining", deadline_ms=round(max(deadline_s - now_s, 0.0) * 1000)))
        for utterance in list(self._utterances.values()):
            if utterance.waits_in_queue:
                utterance.fail(
                    make_error("shutting_down", "the server is about to stop; try another", id=utterance.id),
                    now_s,
                )

    def _keep_time(self, now_s: float) -> None:
        for expired in self._conversation.expire(now_s):
            self._receipts.drop(expired)
        if now_s >= self._drain_at_s:
            for utterance in list(self._utterances.values()):
                utterance.fail(
                    make_error("shutting_down", "the server stops now", id=utterance.id), now_s, heard=True
                )
        if self._closing is None and not self._utterances:
            if self._drain_at_s != math.inf:
                self._close(1001, "draining")
            elif now_s >= self._idle_since_s + self._limits.idle_s:
                self._say(wire.Bye(reason="idle"))
                self._close(1000, "idle")

    def _next_moment_s(self) -> float:
        expiry_s = self._conversation.next_expiry_s
        moment_s = min(math.inf if expiry_s is None else expiry_s, self._drain_at_s)
        if not self._utterances:
            moment_s = min(moment_s, self._idle_since_s + self._limits.idle_s)
        return moment_s

    def _say(self, *messages: wire.ServerMessage) -> None:
        now_s = time.monotonic()
        for message in messages:
            self._conversation.send(message, now_s)
            self._control.append(message)
        if len(self._control) > _CONTROL_BACKLOG and self._closing is None:
            self._control.clear()
            self._control.append(wire.Bye(reason="policy"))
            self._close(1008, "too many messages without reading the answers")
        self._wake.set()

    def _close(self, code: int, reason: str) -> None:
        if self._closing is None:
            self._closing = CloseConnection(code, reason)
            self._wake.set()
