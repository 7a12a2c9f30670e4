from pathlib import Path

import pytest
from pydantic import SecretStr

from ws_server.auth import Auth, Identity, Key, Unauthorized, parse_key, read_keys
from ws_server.settings import BadSettings, Settings
from ws_server.tokens import TokenLimits, TokenStore

WEB = "web:speak:a-secret-of-some-length"
OPS = "ops:admin:another-secret-altogether"


def auth(*lines: str) -> Auth:
    return Auth([parse_key(line) for line in lines], TokenStore(expires_s=60))


def test_the_right_key_is_known_by_name_and_role() -> None:
    guard = auth(WEB, OPS)
    assert guard.identify("Bearer a-secret-of-some-length") == Identity("web", "speak")
    assert guard.identify("bearer another-secret-altogether") == Identity("ops", "admin")


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer a-secret-of-some-lengt",
        "Bearer a-secret-of-some-lengthx",
        "Bearer web:speak:a-secret-of-some-length",
        "Basic a-secret-of-some-length",
        "a-secret-of-some-length",
        "Bearer \udcff",
    ],
)
def test_anything_else_is_nobody(header: str | None) -> None:
    with pytest.raises(Unauthorized):
        auth(WEB, OPS).identify(header)


def test_without_keys_everyone_is_the_owner() -> None:
    assert auth().identify(None) == Identity("open", "admin")


def test_a_token_opens_one_connection_as_a_speaker_with_its_limits() -> None:
    guard = auth(OPS)
    limits = TokenLimits(utterances=3, total_chars=500, voice="heart")
    token = guard.tokens.make("ops", limits, 0.0)
    peeked = guard.identify_socket(None, token, 1.0, spend=False)
    spent = guard.identify_socket(None, token, 2.0, spend=True)
    assert peeked == spent == Identity("ops", "speak", limits)
    with pytest.raises(Unauthorized):
        guard.identify_socket(None, token, 3.0, spend=True)


def test_a_token_is_too_old_after_its_time() -> None:
    guard = auth(WEB)
    token = guard.tokens.make("web", TokenLimits(), 0.0)
    assert guard.identify_socket(None, token, 59.9, spend=False).name == "web"
    with pytest.raises(Unauthorized):
        guard.identify_socket(None, token, 60.0, spend=True)


def test_a_token_is_no_key_and_a_key_is_no_token() -> None:
    guard = auth(WEB)
    token = guard.tokens.make("web", TokenLimits(), 0.0)
    with pytest.raises(Unauthorized):
        guard.identify(f"Bearer {token}")
    with pytest.raises(Unauthorized):
        guard.identify_socket(None, "a-secret-of-some-length", 0.0, spend=True)


def test_a_wrong_key_isnt_mended_by_a_good_token() -> None:
    guard = auth(WEB)
    token = guard.tokens.make("web", TokenLimits(), 0.0)
    with pytest.raises(Unauthorized):
        guard.identify_socket("Bearer wrong-wrong-wrong-wrong", token, 0.0, spend=True)


def test_the_oldest_token_gives_way_when_there_are_too_many() -> None:
    store = TokenStore(max_tokens=3)
    first, *others = [store.make("web", TokenLimits(), 0.0) for _ in range(4)]
    assert len(store) == 3
    assert store.peek(first, 0.0) is None
    assert all(store.peek(token, 0.0) for token in others)


def test_expired_tokens_are_forgotten() -> None:
    store = TokenStore(expires_s=60)
    for at_s in range(100):
        store.make("web", TokenLimits(), float(at_s))
    assert len(store) == 60


def test_new_keys_replace_the_old_ones_and_their_tokens() -> None:
    guard = auth(WEB, OPS)
    token = guard.tokens.make("web", TokenLimits(), 0.0)
    guard.replace_keys([parse_key(OPS)])
    with pytest.raises(Unauthorized):
        guard.identify("Bearer a-secret-of-some-length")
    with pytest.raises(Unauthorized):
        guard.identify_socket(None, token, 0.0, spend=True)


def test_a_server_with_keys_never_becomes_an_open_one() -> None:
    guard = auth(WEB)
    with pytest.raises(BadSettings):
        guard.replace_keys([])
    with pytest.raises(Unauthorized):
        guard.identify(None)


def test_keys_come_from_the_settings_and_from_a_file_with_comments(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"# operations\n\n{OPS}\n")
    keys = read_keys(Settings(keys=(SecretStr(WEB),), keys_file=path))
    assert [(key.name, key.role) for key in keys] == [("web", "speak"), ("ops", "admin")]


@pytest.mark.parametrize(
    "line",
    [
        "web",
        "web:speak",
        "web:speak:",
        ":speak:a-secret-of-some-length",
        "web:king:a-secret-of-some-length",
        "web:speak:short",
    ],
)
def test_a_malformed_key_is_refused_and_not_shown(line: str) -> None:
    with pytest.raises(BadSettings) as caught:
        parse_key(line)
    assert "a-secret" not in str(caught.value)
    assert "short" not in str(caught.value)


def test_two_keys_of_one_name_are_refused() -> None:
    with pytest.raises(BadSettings, match="web: two keys"):
        read_keys(Settings(keys=(SecretStr(WEB), SecretStr("web:admin:another-secret-altogether"))))


def test_a_keys_file_that_isnt_there_or_isnt_text_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=r"keys_file: .*absent"):
        read_keys(Settings(keys_file=tmp_path / "absent"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(BadSettings, match="not UTF-8"):
        read_keys(Settings(keys_file=tmp_path / "binary"))


def test_a_key_in_memory_holds_no_secret() -> None:
    key = parse_key(WEB)
    assert isinstance(key, Key)
    assert "a-secret-of-some-length" not in repr(key)
