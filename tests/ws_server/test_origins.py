import pytest

from ws_server.origins import Origins

NO_KEYS = Origins.of(origins=(), hosts=(), keyed=False)
KEYED = Origins.of(origins=("https://app.example.com",), hosts=(), keyed=True)


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        (None, "127.0.0.1:8765"),
        (None, "localhost:8765"),
        (None, "[::1]:8765"),
        (None, "192.168.1.20:8765"),
        (None, None),
        ("http://127.0.0.1:8765", "127.0.0.1:8765"),
        ("http://LocalHost:8765", "localhost:8765"),
        ("http://demo.localhost:8765", "demo.localhost:8765"),
        ("http://localhost", "localhost:80"),
        ("https://localhost", "localhost:443"),
    ],
)
def test_the_servers_own_pages_and_programs_may_use_it(origin: str | None, host: str | None) -> None:
    assert NO_KEYS.allows(origin, host)


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("https://evil.example", "127.0.0.1:8765"),
        ("null", "127.0.0.1:8765"),
        ("", "127.0.0.1:8765"),
        ("http://127.0.0.1:9999", "127.0.0.1:8765"),
        ("http://127.0.0.1:8765.evil.example", "127.0.0.1:8765"),
        ("http://127.0.0.1:8765@evil.example", "127.0.0.1:8765"),
        ("http://localhost:99999", "localhost:8765"),
        ("http://evil.example:8765", None),
    ],
)
def test_other_pages_may_not(origin: str, host: str | None) -> None:
    assert not NO_KEYS.allows(origin, host)


@pytest.mark.parametrize(
    "host", ["evil.example:8765", "127.0.0.1.evil.example", "evil.example", "", "@", "a b"]
)
def test_a_name_that_a_stranger_points_here_is_refused_without_keys(host: str) -> None:
    assert not NO_KEYS.allows(f"http://{host}", host)
    assert not NO_KEYS.allows(None, host)


def test_with_keys_any_name_will_do_and_listed_origins_may_come() -> None:
    assert KEYED.allows(None, "tts.example.com")
    assert KEYED.allows("https://tts.example.com", "tts.example.com")
    assert KEYED.allows("https://app.example.com", "tts.example.com")
    assert not KEYED.allows("http://app.example.com", "tts.example.com")
    assert not KEYED.allows("https://app.example.com.evil.example", "tts.example.com")


def test_listed_names_are_the_only_ones_when_there_are_any() -> None:
    listed = Origins.of(origins=(), hosts=("tts.example.com",), keyed=True)
    assert listed.allows(None, "TTS.example.com:8765")
    assert listed.allows(None, "10.0.0.7")
    assert not listed.allows(None, "other.example.com")


def test_a_star_allows_every_origin_but_not_every_host_name() -> None:
    anyone = Origins.of(origins=("*",), hosts=(), keyed=False)
    assert anyone.allows("https://whoever.example", "localhost:8765")
    assert not anyone.allows("https://whoever.example", "whoever.example")
