"""Who can speak and with what: engines times voices, and what an `open` means among them."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from engines import registry
from engines.contract import (
    BuiltinVoice,
    CloneMode,
    Facts,
    Info,
    OptionError,
)
from protocol.limits import LONGEST_WAIT_MS, Limits
from protocol.messages import Format, Open
from voices.library import Library
from voices.reference import Clone
from voices.voice import Voice
from ws_server.accelerators import present
from ws_server.auth import Identity
from ws_server.entries import Entry, read_entry
from ws_server.languages import match_language
from ws_server.plan import Plan, Refusal
from ws_server.settings import BadSettings, Settings
from ws_server.text import SegmentRules

TELEPHONE_RATE_HZ = 8000


@dataclass(frozen=True, slots=True)
class VoiceRow:
    voice_id: str
    name: str
    kind: Literal["builtin", "uploaded"]
    engines: tuple[str, ...]
    """That can use it here; none may be able to."""
    language: str | None
    uploaded: Voice | None = None


@dataclass(frozen=True, slots=True)
class Speaker:
    """A voice as one engine takes it."""

    voice_id: str
    language: str | None
    clone: Clone | None = None


class Catalogue:
    """Never blocks once it is made; what is uploaded is in it as soon as the library knows it."""

    def __init__(
        self,
        entries: Mapping[str, Entry],
        *,
        engine: str,
        voice: str | None,
        limits: Limits,
        library: Library | None = None,
    ) -> None:
        self._entries = dict(entries)
        self._library = library
        self._limits = limits
        self.default_engine = engine
        self._default_voice = voice
        match_language(
            "English", ("en",)
        )  # it reads its tables at the first name, and this isn't the loop yet

    @classmethod
    def read(cls, settings: Settings, library: Library | None = None) -> "Catalogue":
        """Look at every engine of the registry. Raises BadSettings where a setting names what isn't there."""
        names = registry.names()
        unknown = set(settings.engines).difference(names)
        if unknown:
            raise BadSettings(f"engines: there is no engine {', '.join(sorted(unknown))}")
        here = present()
        entries = {name: read_entry(name, settings, here) for name in names}
        for name in settings.engines:
            if entries[name].facts is None:
                raise BadSettings(f"engines.{name}: {entries[name].problem}")
        default = entries.get(settings.engine)
        if default is None:
            raise BadSettings(f"engine: there is no {settings.engine!r}; there are {', '.join(entries)}")
        if default.facts is None:
            raise BadSettings(f"engine: {settings.engine}: {default.problem}")
        catalogue = cls(
            entries, engine=settings.engine, voice=settings.voice, limits=settings.limits, library=library
        )
        catalogue._check_default_voice(default)
        return catalogue

    def _check_default_voice(self, default: Entry) -> None:
        voice = self._default_voice
        if voice is None:
            return
        if self._library is not None:
            self._library.look_up(voice)
        if self._speaker_of(default, voice) is None:
            has = ", ".join(builtin.voice_id for builtin in default.info.voices)
            raise BadSettings(f"voice: {default.name} has no {voice!r}; it has {has}")

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
                first = voice if known is None else known
                rows[voice.voice_id] = VoiceRow(
                    voice.voice_id, first.name, "builtin", engines, first.language
                )
        if self._library is not None:
            for uploaded in self._library.voices():
                rows.setdefault(uploaded.voice_id, self._row(uploaded))
        return [row for row in rows.values() if engine is None or engine in row.engines]

    def voice(self, voice_id: str) -> VoiceRow | None:
        uploaded = None if self._library is None else self._library.find(voice_id)
        if uploaded is not None:
            return self._row(uploaded)
        return next((row for row in self.voices() if row.voice_id == voice_id), None)

    def clones(self, uploaded: Voice) -> list[tuple[str, Clone]]:
        """The engines that can speak with it, and what each takes it for."""
        modes = ((entry.name, _mode(entry, uploaded)) for entry in self._usable())
        return [(name, Clone(uploaded.voice_id, mode)) for name, mode in modes if mode is not None]

    def to_prepare(self, uploaded: Voice) -> list[tuple[str, Clone]]:
        """Those of them that may be asked to without being named."""
        return [
            (name, clone) for name, clone in self.clones(uploaded) if not self._entries[name].info.synthetic
        ]

    def _row(self, uploaded: Voice) -> VoiceRow:
        engines = tuple(name for name, _ in self.clones(uploaded))
        return VoiceRow(
            uploaded.voice_id, uploaded.name, "uploaded", engines, uploaded.traits.language, uploaded
        )

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
            clone=voice.clone,
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

    def _speaker(self, opened: Open, identity: Identity) -> tuple[Entry, Facts, Speaker]:
        wanted = _allowed_voice(opened.voice, identity)
        entry = self._engine(opened.engine, wanted)
        if entry.facts is None:
            raise Refusal("engine_unavailable", entry.problem or "it can't be used", param="engine")
        if wanted is None:
            wanted = (
                self.default_voice if entry.name == self.default_engine else entry.info.voices[0].voice_id
            )
        speaker = self._speaker_of(entry, wanted)
        if speaker is not None:
            return entry, entry.facts, speaker
        able = [other.name for other in self._usable() if self._speaker_of(other, wanted) is not None]
        message = f"engine {entry.name} has no voice {wanted!r}"
        if self._library is not None and self._library.find(wanted) is not None:
            message = f"engine {entry.name} can't speak with the uploaded voice {wanted}"
        if able:
            message += f"; these can: {', '.join(able)}"
        raise Refusal("unknown_voice", message, param="voice", value=able or None)

    def _engine(self, asked: str | None, voice: str | None) -> Entry:
        if asked is not None:
            return self.entry(asked)
        default = self._entries[self.default_engine]
        if voice is None or self._speaker_of(default, voice) is not None:
            return default
        return next((entry for entry in self._usable() if self._offers(entry, voice)), default)

    def _offers(self, entry: Entry, voice: str) -> bool:
        """Whether it is to speak with this voice where nobody has named an engine."""
        speaker = self._speaker_of(entry, voice)
        return speaker is not None and not (speaker.clone is not None and entry.info.synthetic)

    def _speaker_of(self, entry: Entry, voice_id: str) -> Speaker | None:
        builtin = _builtin(entry.info, voice_id)
        if builtin is not None:
            return Speaker(voice_id, builtin.language)
        uploaded = None if self._library is None else self._library.find(voice_id)
        mode = None if uploaded is None else _mode(entry, uploaded)
        if uploaded is None or mode is None:
            return None
        return Speaker(voice_id, uploaded.traits.language, Clone(voice_id, mode))

    def _rules(self, facts: Facts, wait_ms: float | None) -> SegmentRules:
        return SegmentRules(
            wait_ms=self._limits.wait_ms if wait_ms is None else min(wait_ms, LONGEST_WAIT_MS),
            stall_ms=self._limits.stall_ms,
            max_chars=facts.max_chars,
            max_sentences=facts.max_sentences,
            grows=facts.grows,
        )


def derived_seed(voice: str, checkpoint: str) -> int:
    """The same voice always speaks the same way."""
    digest = hashlib.blake2b(f"{voice}\0{checkpoint}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def _allowed_voice(asked: str | None, identity: Identity) -> str | None:
    only = identity.limits.voice
    if only is None:
        return asked
    if asked not in (None, only):
        raise Refusal("unknown_voice", f"this token speaks with {only!r} alone", param="voice", value=[only])
    return only


def _builtin(info: Info, voice_id: str) -> BuiltinVoice | None:
    """Of a blend the first, whose language it speaks."""
    known = {voice.voice_id: voice for voice in info.voices}
    parts = voice_id.split("+") if info.blends else [voice_id]
    return known[parts[0]] if all(part in known for part in parts) else None


def _mode(entry: Entry, uploaded: Voice) -> CloneMode | None:
    return uploaded.mode_for(entry.name, entry.info.clones)


def _language(entry: Entry, voice: Speaker, asked: str | None) -> str:
    offered = entry.info.languages
    wanted = voice.language if asked is None else asked
    found = None if wanted is None else match_language(wanted, offered)
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
            message = f"engine {entry.name} has no option {name[:64]!r}"
            raise Refusal("invalid_option", message, param=f"options.{name[:64]}", value=known)
    try:
        return kind(**(asked or {}))
    except OptionError as error:
        raise Refusal("invalid_option", str(error), param=f"options.{error.param}") from None
    except (TypeError, ValueError) as error:
        raise Refusal("invalid_option", str(error), param="options") from None
