"""What users write for a server's address."""

import pytest

from saystream import address


@pytest.mark.parametrize(
    ("written", "socket_url", "http_url"),
    [
        ("127.0.0.1:8765", "ws://127.0.0.1:8765/v1/speak", "http://127.0.0.1:8765"),
        ("ws://host/v1/speak", "ws://host/v1/speak", "http://host"),
        ("http://host:1/", "ws://host:1/v1/speak", "http://host:1"),
        ("https://voice.example/tts", "wss://voice.example/tts/v1/speak", "https://voice.example/tts"),
        ("wss://host/v1/speak?a=b", "wss://host/v1/speak?a=b", "https://host"),
        ("[::1]:80", "ws://[::1]:80/v1/speak", "http://[::1]:80"),
    ],
)
def test_an_address_names_both_faces(written: str, socket_url: str, http_url: str) -> None:
    assert address.parse(written) == address.Address(socket_url, http_url)


@pytest.mark.parametrize("written", ["", "ftp://host", "ws://", "/v1/speak"])
def test_anything_else_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="not the address"):
        address.parse(written)


def test_a_token_is_quoted_into_the_query() -> None:
    assert address.parse("ws://h?a=b").with_token("x/y=") == "ws://h/v1/speak?a=b&token=x%2Fy%3D"
    assert address.parse("ws://h").with_token(None) == "ws://h/v1/speak"
