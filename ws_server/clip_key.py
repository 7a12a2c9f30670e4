"""Under which key a segment's audio is kept: the one place that knows all that shapes its sound."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from engines.contract import Facts, Info, Request
from engines.silence import SilenceRules
from pcm_cache.key import ClipKey, Plain

GUARDS_VERSION = 1
"""Goes up when engines/guards.py or engines/silence.py makes other samples of the same ones."""


def clip_key(request: Request, facts: Facts, info: Info, voice_content: str) -> ClipKey:
    """`voice_content`: another for another sound of the voice, whatever its name. Raises TypeError for an option
    that isn't a plain value.
    """
    return ClipKey(
        engine=info.name,
        engine_version=info.version,
        checkpoint=facts.checkpoint,
        sample_rate_hz=facts.sample_rate_hz,
        exact_words=facts.exact_words,
        guards=f"{GUARDS_VERSION} {_plain(SilenceRules())} {facts.sampling}",
        text=request.text,
        language=request.language,
        voice=voice_content,
        speed=float(request.speed),
        seed=request.seed,
        options=_plain(request.options),
    )


def _plain(value: Any) -> Plain:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list() | tuple():
            return ("list", *map(_plain, value))
        case Mapping():
            return ("map", *((str(name), _plain(value[name])) for name in sorted(value)))
        case _ if is_dataclass(value):
            return ("map", *((field.name, _plain(getattr(value, field.name))) for field in fields(value)))
        case _:
            raise TypeError(f"no part of a key: {type(value).__name__}")
