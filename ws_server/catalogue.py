"""Who can speak and with what: engines times voices, and what an `open` means among them."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from engines import registry
from engines.contract import BuiltinVoice, Engine, EngineUnavailable, Facts, Info, OptionError, Source
from protocol.limits import Limits
from protocol.messages import Format, Open
from ws_server.auth import Identity
from ws_server.languages import match_language
from ws_server.plan import Plan, Refusal
from ws_server.settings import BadSettings, Settings
from ws_server.text import SegmentRules

TELEPHONE_RATE_HZ = 8000


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An engine of the registry, as it is here."""

    name: str
    engine: Engine
    info: Info
    source: Source
    installed: bool
    facts: Facts | None
    """None: it can't be used; `problem` says why."""
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class VoiceRow:
    voice: BuiltinVoice
    engines: tuple[str, ...]


class Catalogue:
    """Immutable but for the registry behind it; never blocks once it is made."""

    def __init__(
        self, entries: Mapping[str, Entry], *, engine: str, voice: str | None, limits: Limits
    ) -> None:
        self._entries = dict(entries)
        self._limits = limits
        self.default_engine = engine
        self._default_voice = voice
        match_language(
            "English", ("en",)
        )  # it reads its tables at the first name, and this isn't the loop yet

    @classmethod
    def read(cls, settings: Settings) -> "Catalogue":
        """Look at every engine of the registry. Raises BadSettings where a setting names what isn't there."""
        names = registry.names()
        unknown = set(settings.engines).difference(names)
        if unknown:
            raise BadSettings(f"engines: there is no engine {', '.join(sorted(unknown))}")
        entries = {name: _entry(name, settings.engines.get(name, {})) for name in names}
        for name in settings.engines:
            if entries[name].facts is None:
                raise BadSettings(f"engines.{name}: {entries[name].problem}")
        default = entries.get(settings.engine)
        if default is None:
            raise BadSettings(f"engine: there is no {settings.engine!r}; there are {', '.join(entries)}")
        if default.facts is None:
            raise BadSettings(f"engine: {settings.engine}: {default.problem}")
        voices = [voice.voice_id for voice in default.info.voices]
        if settings.voice is not None and settings.voice not in voices:
            raise BadSettings(
                f"voice: {settings.engine} has no {settings.voice!r}; it has {', '.join(voices)}"
            )
        return cls(entries, engine=settings.engine, voice=settings.voice, limits=settings.limits)

    # What there is ------------------------------------------------------------------------------------------

    def entries(self) -> Iterator[Entry]:
        yield from self._entries.values()

    def entry(self, name: str) -> Entry:
        """Raises Refusal."""
        found = self._entries.get(name)
        if found is None:
            known = list(self._entries)
            message = f"there is no engine {name!r}; there are {', '.join(known)}"
            raise Refusal("unknown_engine", message, param="engine", value=known)
        return found

    def voices(self, engine: str | None = None) -> list[VoiceRow]:
        """Those of every usable engine, each once; `engine`: only what it can use. Raises Refusal."""
        if engine is not None:
            self.entry(engine)
        rows: dict[str, VoiceRow] = {}
        for entry in self._usable():
            for voice in entry.info.voices:
                known = rows.get(voice.voice_id)
                engines = (entry.name,) if known is None else (*known.engines, entry.name)
                rows[voice.voice_id] = VoiceRow(voice if known is None else known.voice, engines)
        return [row for row in rows.values() if engine is None or engine in row.engines]

    @property
    def default_voice(self) -> str:
        return self._default_voice or self._entries[self.default_engine].info.voices[0].voice_id

    @property
    def default_rate_hz(self) -> int:
        facts = self._entries[self.default_engine].facts
        assert facts is not None  # noqa: S101 - `read` has seen to it
        return facts.sample_rate_hz

    def _usable(self) -> Iterator[Entry]:
        return (entry for entry in self._entries.values() if entry.facts is not None)

    # What an `open` means -----------------------------------------------------------------------------------

    def resolve(self, opened: Open, identity: Identity) -> Plan:
        """Raises Refusal."""
        entry, facts, voice = self._speaker(opened, identity)
        out_format: Format = opened.format or "s16le"
        return Plan(
            unit=entry.name,
            engine=entry.name,
            voice=voice.voice_id,
            language=_language(entry, voice, opened.language),
            facts=facts,
            info=entry.info,
            scripts=entry.info.scripts,
            options=_options(entry, opened.options),
            seed=derived_seed(voice.voice_id, facts.checkpoint) if opened.seed is None else opened.seed,
            speed=_speed(facts, opened.speed),
            format=out_format,
            sample_rate_hz=opened.sample_rate_hz or _rate_hz(out_format, facts),
            rules=self._rules(facts, opened.wait_ms),
            total_chars=min(
                self._limits.total_chars, identity.limits.total_chars or self._limits.total_chars
            ),
        )

    def _speaker(self, opened: Open, identity: Identity) -> tuple[Entry, Facts, BuiltinVoice]:
        wanted = _allowed_voice(opened.voice, identity)
        entry = self._engine(opened.engine, wanted)
        if entry.facts is None:
            raise Refusal("engine_unavailable", entry.problem or "it can't be used", param="engine")
        if wanted is None:
            wanted = (
                self.default_voice if entry.name == self.default_engine else entry.info.voices[0].voice_id
            )
        for voice in entry.info.voices:
            if voice.voice_id == wanted:
                return entry, entry.facts, voice
        able = [other.name for other in self._usable() if _speaks_as(other, wanted)]
        message = f"engine {entry.name} has no voice {wanted!r}"
        if able:
            message += f"; these have: {', '.join(able)}"
        raise Refusal("unknown_voice", message, param="voice", value=able or None)

    def _engine(self, asked: str | None, voice: str | None) -> Entry:
        if asked is not None:
            return self.entry(asked)
        default = self._entries[self.default_engine]
        if voice is None or _speaks_as(default, voice):
            return default
        return next((entry for entry in self._usable() if _speaks_as(entry, voice)), default)

    def _rules(self, facts: Facts, wait_ms: float | None) -> SegmentRules:
        return SegmentRules(
            wait_ms=self._limits.wait_ms if wait_ms is None else wait_ms,
            stall_ms=self._limits.stall_ms,
            max_chars=facts.max_chars,
            max_sentences=facts.max_sentences,
        )


def derived_seed(voice: str, checkpoint: str) -> int:
    """The same voice always speaks the same way."""
    digest = hashlib.blake2b(f"{voice}\0{checkpoint}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def _entry(name: str, values: Mapping[str, Any]) -> Entry:
    engine = registry.describe(name)
    source = Source(path=values.get("path"), settings={k: v for k, v in values.items() if k != "path"})
    command = registry.missing(engine)
    facts, problem = None, None
    try:
        if command is None:
            facts = engine.identify(source)
        else:
            problem = f"the library of engine {name!r} isn't installed: {command}"
    except EngineUnavailable as error:
        problem = str(error)
    except OptionError as error:
        raise BadSettings(f"engines.{name}.{error.param}: {error}") from None
    return Entry(
        name=name,
        engine=engine,
        info=engine.info,
        source=source,
        installed=command is None,
        facts=facts,
        problem=problem,
    )


def _allowed_voice(asked: str | None, identity: Identity) -> str | None:
    only = identity.limits.voice
    if only is None:
        return asked
    if asked not in (None, only):
        raise Refusal("unknown_voice", f"this token speaks with {only!r} alone", param="voice", value=[only])
    return only


def _speaks_as(entry: Entry, voice: str) -> bool:
    return any(known.voice_id == voice for known in entry.info.voices)


def _language(entry: Entry, voice: BuiltinVoice, asked: str | None) -> str:
    offered = entry.info.languages
    found = match_language(voice.language if asked is None else asked, offered)
    if found is not None:
        return found
    if asked is None:
        return next(iter(offered))
    message = f"engine {entry.name} doesn't speak {asked!r}"
    raise Refusal("unsupported_language", message, param="language", value=list(offered))


def _speed(facts: Facts, asked: float | None) -> float:
    low, high = facts.speed
    if asked is None:
        return min(max(1.0, low), high)
    if not low <= asked <= high:
        message = f"the speed is between {low:g} and {high:g}"
        raise Refusal("invalid_option", message, param="speed", value=[low, high])
    return asked


def _rate_hz(out_format: Format, facts: Facts) -> int:
    return TELEPHONE_RATE_HZ if out_format in ("mulaw", "alaw") else facts.sample_rate_hz


def _options(entry: Entry, asked: Mapping[str, Any] | None) -> Any:
    kind = entry.info.options
    if kind is None:
        if asked:
            raise Refusal("invalid_option", f"engine {entry.name} has no options", param="options")
        return None
    known = [field.name for field in fields(kind)]
    for name in asked or {}:
        if name not in known:
            message = f"engine {entry.name} has no option {name!r}"
            raise Refusal("invalid_option", message, param=f"options.{name}", value=known)
    try:
        return kind(**(asked or {}))
    except OptionError as error:
        raise Refusal("invalid_option", str(error), param=f"options.{error.param}") from None
    except (TypeError, ValueError) as error:
        raise Refusal("invalid_option", str(error), param="options") from None
