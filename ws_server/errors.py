"""What goes wrong with an utterance, as the wire's `error`: the one table from exceptions to codes."""

import math
from typing import Any

from engines.contract import (
    EngineError,
    EngineFault,
    EngineUnavailable,
    ModelStalled,
    OptionError,
    VoiceUnavailable,
)
from engines.registry import UnknownEngine
from protocol import messages as wire
from protocol.errors import ErrorCode, make_error
from residency.errors import Busy, EngineStalled, UnknownUnit
from voices.errors import StoreFailed, VoiceBroken, VoiceMissing
from ws_server.plan import Refusal

CODES: dict[type[Exception], ErrorCode] = {
    Busy: "busy",
    ModelStalled: "engine_stalled",
    VoiceUnavailable: "engine_unavailable",
    EngineError: "engine_failed",
    EngineStalled: "engine_stalled",
    EngineUnavailable: "engine_unavailable",
    OptionError: "invalid_option",
    UnknownEngine: "unknown_engine",
    UnknownUnit: "engine_unavailable",
    StoreFailed: "engine_failed",
    VoiceBroken: "unknown_voice",
    VoiceMissing: "unknown_voice",
}


def error_of(error: Exception, utterance_id: str) -> wire.Error:
    """For the client; an exception that no row knows is `internal`. Its text, and an engine's fault's, stays here."""
    if isinstance(error, Refusal):
        retry_after_ms = None if error.retry_after_s is None else math.ceil(error.retry_after_s * 1000)
        return make_error(
            error.code,
            str(error),
            id=utterance_id,
            param=error.param,
            value=error.value,
            retry_after_ms=retry_after_ms,
        )
    if isinstance(error, EngineFault):
        return make_error("engine_failed", "the engine failed; the server's log has more", id=utterance_id)
    for kind, code in CODES.items():
        if isinstance(error, kind):
            return make_error(code, str(error), id=utterance_id, **_extras(error))
    return make_error("internal", "the server made a mistake; its log has more", id=utterance_id)


def _extras(error: Exception) -> dict[str, Any]:
    match error:
        case Busy(retry_after_s=retry_after_s):
            return {"retry_after_ms": round(retry_after_s * 1000)}
        case OptionError(param=param):
            return {"param": f"options.{param}"}
        case _:
            return {}
