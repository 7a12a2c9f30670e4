"""What can be watched from outside: Prometheus metrics named saystream_*, in base units."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pcm_cache.cache import PcmCache

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Close together around the frame period (20-100 ms), where a listener tells good from bad.
_LATENCY_S = (0.005, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2, 5, 10, 30)
_STEP_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.3, 0.5, 1, 2, 5, 30)
_COST = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1, 1.5, 2, 5)
_LEAD_S = (0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30)
_LAG_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)
_GAP_S = (0.005, 0.01, 0.02, 0.04, 0.06, 0.1, 0.2, 0.5, 1, 2, 5)


@dataclass(frozen=True, slots=True)
class Gauge:
    """Read when somebody looks, so it can't be stale."""

    name: str
    help: str
    read: Callable[[], float]
    counts: bool = False
    """It only goes up: a counter, whose name gets its `_total`."""


class Metrics:
    """One for each application, in a registry of its own. Observed on the loop alone."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        made = self.registry

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"saystream_{name}", text, labels, registry=made)

        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"saystream_{name}", text, labels, buckets=buckets, registry=made)

        self._first_audio = histogram(
            "first_audio_seconds",
            "From the text that made the first cut certain to the first frame",
            _LATENCY_S,
        )
        self._first_audio_part = histogram(
            "first_audio_part_seconds",
            "The parts of first audio: cut, wait, engine, send",
            _LATENCY_S,
            "part",
        )
        self._queue_wait = histogram("queue_wait_seconds", "Time an utterance waited for a slot", _LATENCY_S)
        self._step = histogram("step_seconds", "Time of one engine step", _STEP_S, "engine")
        self._cost = histogram("cost_ratio", "Compute seconds for a second of audio", _COST, "engine")
        self._lead = histogram("lead_seconds", "Audio in a listener's hands when a frame is sent", _LEAD_S)
        self._gap = histogram("gap_seconds", "Time a listener had nothing to play", _GAP_S, "cause")
        self._lag = histogram("loop_lag_seconds", "How late the event loop's timers are", _LAG_S)
        self._utterances = counter("utterances", "Utterances ended", "reason", "key")
        self._characters = counter("characters", "Characters of text received", "key")
        self._audio = counter("audio_seconds", "Seconds of audio sent", "key")
        self._compute = counter("compute_seconds", "Seconds of engine work", "engine")
        self._segments = counter("segments", "Segments cut")
        self._forced = counter("forced_cuts", "Segments cut early because a listener would have run dry")
        self._gaps = counter("gaps", "Times a listener had nothing to play", "cause")
        self._cancels = counter("cancels", "Utterances cancelled, replaced or dropped with their connection")
        self._unspoken = counter("unspoken_characters", "Letters that the engine couldn't speak")
        self._errors = counter("errors", "Errors sent, by code", "code")
        self._connections = counter("connections_opened", "Connections accepted", "key")
        self._rate_limited = counter("rate_limited", "Requests beyond what a key or a connection may", "key")
        self._refused = counter("connections_refused", "Handshakes refused, by HTTP status", "status")
        self._requests_refused = counter("requests_refused", "HTTP requests kept out, by status", "status")

    def watch(self, gauges: Iterable[Gauge]) -> None:
        self.registry.register(_Gauges(tuple(gauges)))

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def connection_opened(self, key: str) -> None:
        self._connections.labels(key).inc()

    def rate_limited(self, key: str) -> None:
        self._rate_limited.labels(key).inc()

    def connection_refused(self, status: int) -> None:
        self._refused.labels(str(status)).inc()

    def request_refused(self, status: int) -> None:
        self._requests_refused.labels(str(status)).inc()

    def first_audio(self, first_audio_s: float, parts_s: dict[str, float | None]) -> None:
        self._first_audio.observe(first_audio_s)
        for part, value_s in parts_s.items():
            if value_s is not None:
                self._first_audio_part.labels(part).observe(value_s)

    def queue_wait(self, wait_s: float) -> None:
        self._queue_wait.observe(wait_s)

    def step(self, engine: str, step_s: float, audio_s: float) -> None:
        self._step.labels(engine).observe(step_s)
        if audio_s > 0:
            self._cost.labels(engine).observe(step_s / audio_s)

    def lead(self, lead_s: float) -> None:
        self._lead.observe(lead_s)

    def loop_lag(self, lag_s: float) -> None:
        self._lag.observe(lag_s)

    def gap(self, cause: str, gap_s: float) -> None:
        self._gaps.labels(cause).inc()
        self._gap.labels(cause).observe(gap_s)

    def error(self, code: str) -> None:
        self._errors.labels(code).inc()

    def cancel(self) -> None:
        self._cancels.inc()

    def segments(self, made: int, forced: int) -> None:
        self._segments.inc(made)
        self._forced.inc(forced)

    def utterance(
        self,
        *,
        reason: str,
        key: str,
        engine: str,
        chars: int,
        audio_s: float,
        compute_s: float,
        unspoken: int,
    ) -> None:
        self._utterances.labels(reason, key).inc()
        self._characters.labels(key).inc(chars)
        self._audio.labels(key).inc(audio_s)
        self._compute.labels(engine).inc(compute_s)
        self._unspoken.inc(unspoken)


def cache_gauges(cache: PcmCache) -> Iterator[Gauge]:
    counters = cache.counters
    yield Gauge("saystream_cache_entries", "Segments kept, on disk where there is one", lambda: cache.entries)
    yield Gauge("saystream_cache_memory_bytes", "Audio kept in memory", lambda: cache.memory_bytes)
    yield Gauge("saystream_cache_disk_bytes", "Audio kept on disk", lambda: cache.disk_bytes)
    yield Gauge("saystream_cache_hits", "Segments found", lambda: counters.hits, counts=True)
    yield Gauge("saystream_cache_misses", "Segments looked for in vain", lambda: counters.misses, counts=True)
    yield Gauge("saystream_cache_stored", "Segments kept", lambda: counters.stored, counts=True)
    yield Gauge(
        "saystream_cache_refused",
        "Segments not worth keeping: silent or clamped",
        lambda: counters.refused,
        counts=True,
    )
    yield Gauge(
        "saystream_cache_dropped",
        "Segments not kept or looked for: too many at once",
        lambda: counters.dropped,
        counts=True,
    )
    yield Gauge(
        "saystream_cache_faults", "Reads and writes that failed", lambda: cache.faults.count, counts=True
    )


class _Gauges(Collector):
    def __init__(self, gauges: tuple[Gauge, ...]) -> None:
        self._gauges = gauges

    def collect(self) -> Iterator[Metric]:
        for gauge in self._gauges:
            family = (CounterMetricFamily if gauge.counts else GaugeMetricFamily)(gauge.name, gauge.help)
            family.add_metric([], gauge.read())
            yield family
