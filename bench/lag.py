"""How late the server's event loop is while its device is full and more ask for it."""

import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from bench import server, texts
from bench.bare import audio_s_per_s
from bench.capacity import plan
from bench.row import Row
from saystream.load.crowd import listen

_BARE_S = 5.0
_REACH_S = 0.01


async def loop_lag(seconds: float = 30) -> list[Row]:
    number = max(1, int(audio_s_per_s(texts.sentences(), lanes=1, seconds=_BARE_S)))
    with server.running() as running:
        await listen(plan(running.url, number, seconds))
        buckets = _lags(f"{running.http_url}/metrics")
    total = buckets[float("inf")]
    within = buckets[_REACH_S] / total
    return [
        Row(
            f"event loop lag, {number} callers (what the bare engine could serve; the server lets in fewer)",
            f"{100 * within:.1f} % of {total:.0f} looks were at most 10 ms late",
            "p99 ≤ 10 ms",
            within >= 0.99,
            {"within_10_ms": within},
        )
    ]


def _lags(url: str) -> dict[float, float]:
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - our own server
        text = answer.read().decode()
    return {
        float(sample.labels["le"]): sample.value
        for family in text_string_to_metric_families(text)
        if family.name == "saystream_loop_lag_seconds"
        for sample in family.samples
        if sample.name.endswith("_bucket")
    }
