"""The body of `POST /v1/voices`: a form that is taken in within bounds, checked, and made a voice."""

import time
import unicodedata
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
from anyio import to_thread
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from engines.contract import CloneMode
from voices.making import Made, Upload, make_voice
from voices.reading import Bounds
from voices.voice import Traits
from ws_server.catalogue import Catalogue
from ws_server.entries import Entry
from ws_server.http.access import services_of
from ws_server.http.errors import Problem
from ws_server.languages import language_tag
from ws_server.services import Services

FILES = ("audio", "seed_audio")
TEXTS = ("ref_text", "name", "language", "engine", "mode", "seed_text")
MAX_TEXT_CHARS = 2000
MAX_NAME_CHARS = 128
_TEXT_BYTES = 4 * MAX_TEXT_CHARS + 1
_HEAD_BYTES = 64 << 10
"""Of all parts' heads, boundaries and texts together."""
_QUIET_S = 15.0
"""A client that sends nothing for so long is given up."""
_WHOLE_S = 600.0
_DROP_S = 5.0


async def receive_voice(request: Request) -> Made:
    """Raises Problem, Refusal or VoicesError; then nothing of it is kept."""
    services = services_of(request)
    most_bytes = len(FILES) * services.settings.voice_bytes + _HEAD_BYTES
    _check_kind(request)
    async with services.upload_limiter:
        await _check_length(request, most_bytes)
        inbox = _Inbox(request, most_bytes)
        bounded = Request(request.scope, inbox.receive)
        try:
            with anyio.fail_after(_WHOLE_S):
                async with bounded.form(
                    max_files=len(FILES), max_fields=len(TEXTS), max_part_size=_TEXT_BYTES
                ) as form:
                    return await _make(services, form)
        except TimeoutError:
            raise Problem(408, "bad_message", "the body didn't arrive in time") from None
        except ClientDisconnect:
            raise Problem(400, "bad_message", "the body ended early") from None
        except HTTPException as error:
            raise Problem(
                error.status_code, "bad_message", f"the form can't be read: {error.detail}"
            ) from None


def _check_kind(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "multipart/form-data":
        message = f"a voice is sent as multipart/form-data, with its recording in the file {FILES[0]}"
        raise Problem(415, "unsupported_format", message)


async def _check_length(request: Request, most_bytes: int) -> None:
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > most_bytes:
        if "expect" not in request.headers:
            # Who has begun to send reads no answer before an end of it.
            with anyio.move_on_after(_DROP_S):
                async for _ in request.stream():
                    pass
        raise _too_long(most_bytes)


def _too_long(most_bytes: int) -> Problem:
    return Problem(413, "message_too_long", f"the body has more than {most_bytes} bytes")


@dataclass(slots=True)
class _Inbox:
    request: Request
    most_bytes: int
    taken_bytes: int = 0

    async def receive(self) -> Any:
        """Raises Problem where too much comes, or nothing."""
        try:
            with anyio.fail_after(_QUIET_S):
                message = await self.request.receive()
        except TimeoutError:
            raise Problem(408, "bad_message", "the body didn't arrive in time") from None
        self.taken_bytes += len(message.get("body", b""))
        if self.taken_bytes > self.most_bytes:
            raise _too_long(self.most_bytes)
        return message


async def _make(services: Services, form: FormData) -> Made:
    values = _checked(form)
    traits = _traits(values, services.catalogue)
    settings = services.settings
    upload = Upload(
        audio=values["audio"].file,
        name=_name(values.get("name")),
        traits=traits,
        tone_audio=values["seed_audio"].file if "seed_audio" in values else None,
    )
    bounds = Bounds(max_bytes=settings.voice_bytes, most_s=settings.voice_s)
    work = partial(make_voice, services.library, upload, bounds, now_s=time.time())
    return await to_thread.run_sync(work, limiter=services.library_limiter)


def _checked(form: FormData) -> dict[str, Any]:
    """Each field once, files as files and texts as texts. Raises Problem."""
    values: dict[str, Any] = {}
    for name, value in form.multi_items():
        if name not in (*FILES, *TEXTS):
            known = ", ".join((*FILES, *TEXTS))
            raise Problem(422, "invalid_option", f"there is no field {name[:64]!r}; there are {known}")
        if name in values:
            raise Problem(422, "invalid_option", f"{name} is given twice", param=name)
        if isinstance(value, UploadFile) != (name in FILES):
            message = (
                f"{name} has to be a file: nothing is fetched from an address or opened by a path"
                if name in FILES
                else f"{name} has to be a text, not a file"
            )
            raise Problem(422, "invalid_option", message, param=name)
        values[name] = value if isinstance(value, UploadFile) else _text(name, value)
    if "audio" not in values:
        raise Problem(
            422, "invalid_option", "the recording, a file in the field audio, is missing", param="audio"
        )
    return {name: value for name, value in values.items() if value is not None}


def _text(name: str, value: str) -> str | None:
    """None: it is blank."""
    if len(value) > MAX_TEXT_CHARS:
        raise Problem(422, "invalid_option", f"{name} has more than {MAX_TEXT_CHARS} characters", param=name)
    if any(unicodedata.category(one) in {"Cc", "Cs"} and one not in "\n\r\t" for one in value):
        raise Problem(422, "invalid_option", f"{name} has control characters in it", param=name)
    return " ".join(unicodedata.normalize("NFC", value).split()) or None


def _name(value: str | None) -> str | None:
    if value is not None and len(value) > MAX_NAME_CHARS:
        raise Problem(422, "invalid_option", f"name has more than {MAX_NAME_CHARS} characters", param="name")
    return value


def _traits(values: dict[str, Any], catalogue: Catalogue) -> Traits:
    """Raises Problem or Refusal."""
    mode = _mode(values.get("mode"))
    transcript = values.get("ref_text")
    engine = values.get("engine")
    if engine is not None:
        _check_engine(catalogue.entry(engine), mode, transcript)
    return Traits(
        transcript=transcript,
        language=_language(values.get("language")),
        engine=engine,
        mode=mode,
        tone_transcript=values.get("seed_text"),
    )


def _mode(value: str | None) -> CloneMode | None:
    match value:
        case None | "audio" | "audio+text":
            return value
        case _:
            raise Problem(422, "invalid_option", "mode is audio or audio+text", param="mode")


def _check_engine(entry: Entry, mode: CloneMode | None, transcript: str | None) -> None:
    clones = entry.info.clones
    if not clones:
        message = f"engine {entry.name} clones no voices"
        raise Problem(422, "invalid_option", message, param="engine")
    if mode is not None and mode not in clones:
        message = f"engine {entry.name} takes a voice by {' or '.join(sorted(clones))}"
        raise Problem(422, "invalid_option", message, param="mode")
    if transcript is None and "audio" not in clones:
        message = f"engine {entry.name} needs ref_text, what is said in the recording"
        raise Problem(422, "invalid_option", message, param="ref_text")


def _language(value: str | None) -> str | None:
    if value is None:
        return None
    tag = language_tag(value)
    if tag is None:
        raise Problem(
            422, "unsupported_language", f"{value[:64]!r} is no language that is known", param="language"
        )
    return tag
