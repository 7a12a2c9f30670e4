"""How soon the first sound comes: the server's own share, and from token to frame."""

import random
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import AsyncExitStack

from bench import server, texts
from bench.bare import Bare
from bench.row import Row
from bench.talk import Heard, Talk
from saystream.load.crowd import percentiles
from saystream.load.replies import tokens

TOKENS_PER_S = 30


async def own_share(utterances: int = 200, bare_calls: int = 10) -> list[Row]:
    """Paired by segment: first audio through the server, minus the bare engine's median for the same text."""
    chosen = random.Random(1).sample(texts.sentences(), utterances)
    through: list[tuple[str, float]] = []
    with server.running() as running:
        async with Talk(running.url) as talk:
            for text in chosen:
                # Sent ahead: after a pause a cold core would be measured, beside a bare engine that never rests.
                heard = await talk.speak([text], lead_ms=30_000)
                assert heard.first_audio_s is not None
                end_char = heard.segments[0].end_char
                through.append((text[:end_char], 1000 * (heard.first_audio_s - heard.sent_s[0])))
    bare = Bare()
    shares = [first_ms - bare.first_chunk_ms(text, bare_calls) for text, first_ms in through]
    bare.unload()
    p50, p95 = percentiles(shares)
    first = percentiles([first_ms for _, first_ms in through])
    return [
        Row(
            "server's own share of first audio, one listener",
            f"p50 {p50:.1f} ms, p95 {p95:.1f} ms over {utterances} utterances "
            f"(first audio in all: p50 {first[0]:.1f}, p95 {first[1]:.1f})",
            "p50 ≤ 4, p95 ≤ 12 ms",
            p50 <= 4 and p95 <= 12,
            {"p50_ms": p50, "p95_ms": p95},
        )
    ]


async def from_token(replies: int = 200) -> list[Row]:
    """One listener, tokens at the rate of a model, over the corpus."""
    corpus = texts.corpus()[:replies]
    with server.running() as running:
        async with Talk(running.url) as talk:
            heards = []
            for reply in corpus:
                await talk.begin(tokens(reply), TOKENS_PER_S, until_spoke=True)
                await talk.spoke()
                heard = await _hang_up(talk)
                heards.append((reply, heard))
    rows = [_from_token_row("one listener", heards, 60)]
    lengths = percentiles([float(heard.segments[0].end_char) for _, heard in heards])
    rows.append(
        Row("length of first segments", f"p50 {lengths[0]:.0f}, p95 {lengths[1]:.0f} characters", "", None)
    )
    return rows


async def _hang_up(talk: Talk) -> Heard:
    await talk.cancel()
    return await talk.finish()


def _from_token_row(who: str, heards: Sequence[tuple[str, Heard]], reach_ms: float) -> Row:
    waits = [
        wait_ms for reply, heard in heards if (wait_ms := token_to_frame_ms(tokens(reply), heard)) is not None
    ]
    p50, p95 = percentiles(waits)
    return Row(
        f"from the token that makes the first cut certain to the first frame, 30 tokens/s, {who}",
        f"p50 {p50:.0f}, p95 {p95:.0f} ms over {len(waits)} replies",
        f"p95 ≤ {reach_ms:.0f} ms",
        p95 <= reach_ms,
        {"p50_ms": p50, "p95_ms": p95},
    )


def token_to_frame_ms(parts: Sequence[str], heard: Heard) -> float | None:
    """By the server's own word for which moment made the cut certain, checked against the client's clock.

    A cut can become certain some tokens after its end; which, only the server knows: `ttfa_ms` counts from there.
    The client adds what passed on the way: nothing can be certain before its end was sent.
    """
    done = heard.done
    if done is None or heard.first_audio_s is None or done.stats.ttfa_ms is None or not heard.segments:
        return None
    ends, at = [], 0
    for part in parts:
        at += len(part)
        ends.append(at)
    index = bisect_left(ends, heard.segments[0].end_char)
    earliest_s = heard.sent_s[min(index, len(heard.sent_s) - 1)]
    certain_s = heard.first_audio_s - done.stats.ttfa_ms / 1000
    sent_before = [sent_s for sent_s in heard.sent_s if earliest_s <= sent_s <= certain_s + 0.001]
    return 1000 * (heard.first_audio_s - (sent_before[-1] if sent_before else earliest_s))


async def without_comma(rounds: int = 8) -> list[Row]:
    """A fifteen-word sentence: is it heard before it has wholly been sent?"""
    early, words, ahead_ms = 0, [], []
    with server.running() as running:
        async with AsyncExitStack() as stack:
            talk = await stack.enter_async_context(Talk(running.url))
            for text in texts.FIFTEEN_WORDS * rounds:
                await talk.begin(tokens(text), TOKENS_PER_S)
                await talk.spoke()
                heard = await _hang_up(talk)
                last_token_s = heard.sent_s[-2]
                assert heard.first_audio_s is not None
                ahead_ms.append(1000 * (heard.first_audio_s - last_token_s))
                early += heard.first_audio_s < last_token_s
                words.append(len(text[: heard.segments[0].end_char].split()))
    total = len(words)
    latest = percentiles(ahead_ms)[1]
    return [
        Row(
            "a 15-word sentence without a comma, 30 tokens/s",
            f"first audio before the last token in {early} of {total} (p95: {-latest:.0f} ms before it); "
            f"first cut after {min(words)} to {max(words)} words",
            "before the last token, p95; first cut ≥ 4 words",
            latest < 0 and min(words) >= 4,
            {"ahead_ms_p95": -latest, "words_min": float(min(words))},
        )
    ]
