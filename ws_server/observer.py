"""Turns what happens to utterances and connections into log lines and metrics."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from protocol import messages as wire
from ws_server.log import Log
from ws_server.metrics import Metrics
from ws_server.quotas import Bucket

if TYPE_CHECKING:
    from ws_server.session import Session
    from ws_server.utterance import Utterance


_PATH_CHARS = 128
_REFUSALS_PER_S = 10.0
_REFUSALS_AT_ONCE = 300.0
"""Lines; all are counted, whether they are logged or not."""

_OUR_FAULTS = ("engine_failed", "engine_stalled", "engine_unavailable")


class Observer:
    def __init__(self, metrics: Metrics, log: Log) -> None:
        self._metrics = metrics
        self._log = log
        self._lines = Bucket(_REFUSALS_PER_S, _REFUSALS_AT_ONCE)
        self._unlogged = 0

    def connection_opened(self, session: str, peer: str, key: str) -> None:
        self._metrics.connection_opened(key)
        self._log.info("connected", session=session, peer=peer, key=key)

    def connection_closed(self, session: str, peer: str, *, lasted_s: float, code: int | None) -> None:
        self._log.info("disconnected", session=session, peer=peer, lasted_s=round(lasted_s, 3), code=code)

    def connection_refused(self, peer: str, status: int, code: str) -> None:
        self._metrics.connection_refused(status)
        self._refusal("refused", peer=peer, status=status, code=code)

    def request_refused(self, peer: str, path: str, status: int, code: str) -> None:
        self._metrics.request_refused(status)
        self._refusal("request refused", peer=peer, path=path[:_PATH_CHARS], status=status, code=code)

    def utterance_opened(self, session: "Session", utterance: "Utterance") -> None:
        """Nothing yet: its end says everything, and a line at both would say it twice."""

    def segment_cut(self, session: "Session", utterance: "Utterance", text: str) -> None:
        if self._log.texts:
            self._log.info("segment", session=session.name, id=utterance.id, text=text)

    def utterance_refused(self, session: "Session", opened: wire.Open, error: wire.Error) -> None:
        self._metrics.error(error.code)
        self._refusal(
            "utterance refused",
            session=session.name,
            id=opened.id,
            tag=opened.tag,
            code=error.code,
            param=error.param,
            why=error.message,
        )

    def messages_refused(self, session: str, messages: Sequence[wire.ServerMessage]) -> None:
        for message in messages:
            if isinstance(message, wire.Error):
                self._metrics.error(message.code)
                self._refusal(
                    "message refused", session=session, id=message.id, code=message.code, param=message.param
                )

    def _refusal(self, event: str, **fields: Any) -> None:
        """A stranger can bring about as many as he likes, and is not to fill the disk with them."""
        now_s = time.monotonic()
        if self._lines.wait_s(now_s) > 0:
            self._unlogged += 1
            return
        self._lines.take(1, now_s)
        self._log.info(event, **fields, unlogged_before=self._unlogged or None)
        self._unlogged = 0

    def utterance_done(self, session: "Session", utterance: "Utterance", done: wire.Done) -> None:
        stats = done.stats
        error = utterance.error
        if error is not None:
            self._metrics.error(error.code)
        if done.reason in ("cancelled", "replaced"):
            self._metrics.cancel()
        if stats.ttfa_ms is not None:
            parts_ms = {
                "cut": stats.cut_ms,
                "wait": stats.wait_ms,
                "engine": stats.engine_ms,
                "send": stats.send_ms,
            }
            parts_s = {part: None if ms is None else ms / 1000 for part, ms in parts_ms.items()}
            self._metrics.first_audio(stats.ttfa_ms / 1000, parts_s)
        self._count(session, utterance, reason=done.reason, chars=done.chars, audio_ms=stats.audio_ms)
        self._log.info(
            "done",
            session=session.name,
            id=done.id,
            tag=done.tag,
            key=session.identity.name,
            engine=utterance.plan.engine,
            voice=utterance.plan.voice,
            reason=done.reason,
            code=None if error is None else error.code,
            # The server's own faults: what is wrong with a client's message may quote it.
            error=error.message if error is not None and error.code in _OUR_FAULTS else None,
            chars=done.chars,
            heard_char=None if done.heard is None else done.heard.end_char,
            gaps={cause: len(lengths_s) for cause, lengths_s in utterance.tally.gaps.items()} or None,
            **{name: getattr(stats, name) for name in stats.__struct_fields__ if name != "gaps"},
        )

    def utterance_dropped(self, session: "Session", utterance: "Utterance") -> None:
        """Its connection is gone."""
        self._metrics.cancel()
        audio_ms = utterance.outgoing.taken_samples / utterance.plan.sample_rate_hz * 1000
        self._count(session, utterance, reason="dropped", chars=utterance.chars, audio_ms=audio_ms)
        self._log.info(
            "dropped",
            session=session.name,
            id=utterance.id,
            tag=utterance.opened.tag,
            key=session.identity.name,
            chars=utterance.chars,
            audio_ms=round(audio_ms, 3),
        )

    def _count(
        self, session: "Session", utterance: "Utterance", *, reason: str, chars: int, audio_ms: float
    ) -> None:
        tally = utterance.tally
        metrics = self._metrics
        metrics.queue_wait(tally.queue_s)
        metrics.segments(tally.segments, tally.forced_cuts)
        for cause, lengths_s in tally.gaps.items():
            for length_s in lengths_s:
                metrics.gap(cause, length_s)
        metrics.utterance(
            reason=reason,
            key=session.identity.name,
            engine=utterance.plan.engine,
            chars=chars,
            audio_s=audio_ms / 1000,
            compute_s=tally.compute_s,
            unspoken=tally.unspoken_chars,
        )
