import pytest

from protocol.messages import Cancel, Done, End, Error, Open, Ping, Pong, Text
from tests.ws_server.conversing import SENTENCE, Server, serving, until
from tests.ws_server.running import ADMIN_KEY, KEYS, SPEAK_KEY, running
from tests.ws_server.test_speak import refusal
from ws_server.auth import Identity
from ws_server.quotas import Allowance, Bucket, KeyLimits, Quota, Quotas
from ws_server.services import Services
from ws_server.settings import BadSettings, KeyTable, Settings, load


def test_a_bucket_gives_its_burst_and_then_its_rate() -> None:
    bucket = Bucket(per_s=2, burst=4)
    for _ in range(4):
        assert bucket.wait_s(10.0) == 0
        bucket.take(1, 10.0)
    assert bucket.wait_s(10.0) == 0.5
    assert bucket.wait_s(10.25) == 0.25
    assert bucket.wait_s(10.5) == 0
    bucket.take(1, 10.5)
    assert bucket.wait_s(10.5) == 0.5


def test_one_large_piece_is_taken_whole_and_paid_off_afterwards() -> None:
    bucket = Bucket(per_s=10, burst=10)
    bucket.take(110, 0.0)
    assert bucket.debt(0.0) == 100
    assert bucket.wait_s(0.0) == pytest.approx(10.1)
    assert bucket.wait_s(10.1) == 0


def test_a_bucket_never_holds_more_than_its_burst() -> None:
    bucket = Bucket(per_s=10, burst=10)
    bucket.take(1, 0.0)
    bucket.take(10, 1000.0)
    assert bucket.wait_s(1000.0) > 0


def test_the_wait_for_a_stream_is_what_one_of_the_open_ones_will_take() -> None:
    quota = Quota(KeyLimits(streams=2))
    for _ in range(40):
        quota.open_stream()
        quota.close_stream(held_s=8.0)
    quota.open_stream()
    assert quota.stream_wait_s() == 0
    quota.open_stream()
    assert quota.stream_wait_s() == pytest.approx(4.0, rel=0.01)
    assert quota.stream_wait_s(leaving=1) == 0


def test_without_limits_nothing_is_in_the_way() -> None:
    allowance = Allowance(Quota(KeyLimits()), None)
    for _ in range(100_000):
        assert allowance.count_message(0.0) == 0
    assert allowance.take_text(10**9, 0.0) == 0
    assert allowance.open_wait_s(0.0, leaving=0) == 0


def test_a_key_without_a_table_has_the_default_and_each_its_own_account() -> None:
    quotas = Quotas(KeyLimits(streams=1), {"big": KeyLimits(streams=5)})
    quotas.of("a").open_stream()
    assert quotas.of("a").stream_wait_s() > 0
    assert quotas.of("b").stream_wait_s() == 0
    assert quotas.of("big").limits.streams == 5


def test_a_keys_table_changes_only_what_it_names() -> None:
    settings = load(["--key-streams", "3", "--key-limits", '{"web": {"chars_per_min": 50}}'])
    limits = settings.quotas().of("web").limits
    assert limits == KeyLimits(streams=3, chars_per_min=50)


def test_an_unknown_limit_is_refused_by_name() -> None:
    with pytest.raises(BadSettings, match=r"key_limits\.web\.stream: there is no such setting"):
        load(["--key-limits", '{"web": {"stream": 50}}'])


def test_a_table_for_a_key_that_isnt_there_is_refused() -> None:
    settings = Settings(engine="tone", keys=KEYS, key_limits={"wbe": KeyTable(streams=1)})
    with pytest.raises(BadSettings, match=r"key_limits\.wbe: no key has this name"):
        Services.of(settings, probe=False)


# In a session ------------------------------------------------------------------------------------------------

WEB = Identity("web", "speak")


def streams(server: Server) -> int:
    return server.services.quotas.of("web").streams


async def test_a_key_has_so_many_utterances_open_over_all_of_its_connections() -> None:
    async with serving(key_streams=2) as server, server.connect(WEB) as one, server.connect(WEB) as two:
        one.say(Open(id="a"))
        two.say(Open(id="a"), Open(id="b"))
        error = await two.failed("b")
        assert (error.code, error.retryable) == ("rate_limited", True)
        assert error.retry_after_ms is not None
        assert error.retry_after_ms > 0
        async with server.connect(Identity("other", "speak")) as other:
            other.say(Open(id="a"), Text(id="a", text="One."), End(id="a"))
            assert (await other.done()).reason == "complete"
        one.say(Cancel(id="a"))
        await one.done()
        two.say(Open(id="c"), Text(id="c", text="One."), End(id="c"))
        assert (await two.done("c")).reason == "complete"


async def test_a_replacement_needs_no_further_stream_and_every_end_gives_its_own_back() -> None:
    async with serving(key_streams=1, utterance_idle_s=0.05) as server:
        async with server.connect(WEB) as talk:
            talk.say(Open(id="a"), Open(id="b", replaces="a"))
            assert (await talk.done("a")).reason == "replaced"
            assert (await talk.done("b")).reason == "timeout"
            assert streams(server) == 0
            talk.say(Open(id="c"), Text(id="c", text="One."), End(id="c"))
            assert (await talk.done("c")).reason == "complete"
            talk.say(Open(id="d", voice="nobody"))
            await talk.done("d")
            assert streams(server) == 0
            talk.say(Open(id="e"))
            assert streams(server) == 1
        assert streams(server) == 0


async def test_characters_beyond_a_keys_rate_fail_their_utterance_and_say_when_to_come_back() -> None:
    async with serving(key_chars_per_min=60) as server, server.connect(WEB) as talk:
        talk.say(Open(id="a"), Text(id="a", text="x" * 100), Text(id="a", text="y"))
        error = await talk.failed("a")
        assert error.code == "rate_limited"
        # 41 characters too many at one a second.
        assert error.retry_after_ms == pytest.approx(41_000, abs=2000)
        talk.say(Open(id="b"))
        assert (await talk.failed("b")).code == "rate_limited"


async def test_messages_beyond_a_connections_rate_are_refused_but_never_a_cancel_or_an_end() -> None:
    async with serving(messages_per_s=1) as server, server.connect() as talk:
        talk.say(Open(id="a"), Text(id="a", text=SENTENCE), Open(id="b"))
        for _ in range(8):
            talk.say(Ping())
        await talk.some(Pong, 7)
        await talk.one(Error, code="rate_limited", id=None)
        talk.say(End(id="a"), Cancel(id="b"))
        assert (await talk.done("b")).reason == "cancelled"
        assert (await talk.done("a")).reason == "complete"
        talk.say(Open(id="c"))
        assert (await talk.failed("c")).code == "rate_limited"


async def test_one_who_goes_far_over_the_rate_is_sent_away() -> None:
    async with serving(messages_per_s=10) as server, server.connect() as talk:
        for _ in range(1000):
            talk.session.receive(Ping())
        await until(lambda: talk.closed is not None)
        assert talk.closed is not None
        assert talk.closed.code == 1008
        bye = talk.messages[-1]
        assert getattr(bye, "retry_after_ms", 0) > 0
        assert len(talk.messages) < 250


# At the door -------------------------------------------------------------------------------------------------


async def test_a_key_that_connects_too_often_is_refused_before_the_upgrade() -> None:
    speak = {"Authorization": f"Bearer {SPEAK_KEY}"}
    async with running(keys=KEYS, key_limits={"web": {"connections_per_min": 2}}) as server:
        for _ in range(2):
            async with server.speak(additional_headers=speak) as client:
                await client.receive()
        status, code, retry_after = await refusal(server.url, additional_headers=speak)
        assert (status, code, retry_after) == (429, "rate_limited", "30")
        assert (await server.http.get("/v1/speak", headers=speak)).status_code == 429
        admin = {"Authorization": f"Bearer {ADMIN_KEY}"}
        async with server.speak(additional_headers=admin) as client:
            await client.receive()
        metrics = (await server.http.get("/metrics", headers=admin)).text
        assert 'saystream_rate_limited_total{key="web"} 2.0' in metrics


async def test_by_default_nobody_who_speaks_is_limited() -> None:
    async with serving() as server, server.connect() as talk:
        talk.say(Open(id="a"))
        for _ in range(20_000):
            talk.say(Text(id="a", text="a "))
        talk.say(Cancel(id="a"))
        assert (await talk.one(Done)).reason == "cancelled"
