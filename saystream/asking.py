"""One request to a server's HTTP endpoints."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from saystream import address
from saystream.errors import CannotConnect, HandshakeRefused

_TIMEOUT_S = 10


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """urllib would take the key along, wherever it is sent to."""

    def redirect_request(self, *_: object) -> None:
        return None


def ask(
    url: str,
    path: str,
    key: str | None,
    *,
    method: str = "GET",
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = _TIMEOUT_S,
) -> Any:
    """The answer's JSON, None where it is empty. Raises CannotConnect, HandshakeRefused."""
    target = address.parse(url).http_url + path
    sent = {**(headers or {}), **({} if key is None else {"Authorization": f"Bearer {key}"})}
    request = urllib.request.Request(target, data=body, headers=sent, method=method)  # noqa: S310 - parse allows only http and https
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=timeout_s) as answer:
            data = answer.read()
            return json.loads(data) if data else None
    except urllib.error.HTTPError as refused:
        with refused:
            raise _refusal(refused) from None
    except (OSError, ValueError) as error:
        raise CannotConnect(f"no answer from {target}: {getattr(error, 'reason', error)}") from error


def _refusal(refused: urllib.error.HTTPError) -> HandshakeRefused:
    try:
        error = json.load(refused)["error"]
        return HandshakeRefused(refused.code, str(error["code"]), str(error["message"]), None)
    except (ValueError, KeyError, TypeError):  # not saystream's own
        return HandshakeRefused(refused.code, "http", refused.reason, None)
