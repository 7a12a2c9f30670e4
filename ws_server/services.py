"""What sessions and endpoints share; one for each application."""

import asyncio
import secrets
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

import anyio
from anyio import to_thread

from pcm_cache.cache import PcmCache
from protocol.limits import Limits
from protocol.messages import Hello
from residency.dispatcher import Dispatcher
from voices.errors import StoreFailed
from voices.library import Library
from voices.objects import Objects
from voices.voice import is_voice_id
from ws_server.auth import OPEN, Auth, Identity, Key, read_keys
from ws_server.catalogue import Catalogue
from ws_server.device import make_dispatcher
from ws_server.folders import user_cache_folder, user_data_folder
from ws_server.log import Log
from ws_server.metrics import Gauge, Metrics, cache_gauges
from ws_server.observer import Observer
from ws_server.origins import Origins
from ws_server.quotas import Quotas
from ws_server.readiness import Readiness
from ws_server.sessions import Sessions
from ws_server.settings import BadSettings, Settings
from ws_server.tokens import TokenStore
from ws_server.turns import Turns

PROTOCOL = "saystream.v1"
FORMATS = ("s16le", "f32le", "mulaw", "alaw")
FEATURES: tuple[str, ...] = ()
"""Types of messages that were added after v1.0."""


@dataclass(slots=True, kw_only=True)
class Services:
    """Used on the loop alone."""

    settings: Settings
    limits: Limits
    dispatcher: Dispatcher
    cache: PcmCache
    library: Library
    catalogue: Catalogue
    auth: Auth
    quotas: Quotas
    origins: Origins
    metrics: Metrics
    log: Log
    observer: Observer
    sessions: Sessions
    version: str
    upload_limiter: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(4))
    """Each upload takes its recording's size on disk, and so the others wait."""
    library_limiter: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(2))
    """Threads that read, repair and write recordings beside those that speak."""
    pinning: defaultdict[str, anyio.Lock] = field(default_factory=lambda: defaultdict(anyio.Lock))
    """By engine: one that is being pinned isn't yet."""
    turns: Turns = field(default_factory=Turns)
    readiness: Readiness = field(default_factory=Readiness)
    device: str = "cpu"
    started_s: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, settings: Settings, *, probe: bool = True) -> "Services":
        """Reads files, so not on a loop. Raises BadSettings."""
        keys = read_keys(settings)
        _require_limited_keys(settings, keys)
        library = Library(Objects(settings.voices_dir or user_data_folder()))
        catalogue = Catalogue.read(settings, library)
        metrics, log = Metrics(), Log(log_text=settings.log_text)
        services = cls(
            settings=settings,
            limits=settings.limits,
            dispatcher=make_dispatcher(settings, catalogue, library, probe=probe),
            cache=_cache(settings),
            library=library,
            catalogue=catalogue,
            auth=Auth(keys, TokenStore()),
            quotas=settings.quotas(),
            origins=Origins.of(origins=settings.origins, hosts=settings.hosts, keyed=bool(keys)),
            metrics=metrics,
            log=log,
            observer=Observer(metrics, log),
            sessions=Sessions(max_connections=settings.max_connections),
            version=metadata.version("saystream"),
            device=catalogue.entry(catalogue.default_engine).place.device,
        )
        metrics.watch(services.gauges())
        return services

    def new_session_name(self) -> str:
        return secrets.token_hex(8)

    def hello(self, session: str, identity: Identity) -> Hello:
        del identity
        return Hello(
            protocol=PROTOCOL,
            server=f"saystream/{self.version}",
            session=session,
            replica=self.settings.replica,
            engine=self.catalogue.default_engine,
            voice=self.catalogue.default_voice,
            sample_rate_hz=self.catalogue.default_rate_hz,
            formats=list(FORMATS),
            limits=self.limits.wire(),
            load=round(min(self.dispatcher.load, 1.0), 4),
            features=list(FEATURES),
        )

    async def learn_voice(self, voice: str | None) -> None:
        """Look for one that isn't known here: another process may have added it. Returns at once for all others."""
        if voice is None or not is_voice_id(voice) or self.library.find(voice) is not None:
            return
        try:
            await to_thread.run_sync(self.library.look_up, voice, limiter=self.library_limiter)
        except StoreFailed as error:
            self.log.warning("a voice can't be looked up", voice=voice, why=str(error))

    async def learn_voices(self) -> None:
        """All that are stored, and what a killed process left half written is removed."""
        try:
            await to_thread.run_sync(self.library.sweep, limiter=self.library_limiter)
            await to_thread.run_sync(self.library.refresh, limiter=self.library_limiter)
        except StoreFailed as error:
            self.log.warning("voices can't be read", why=str(error))

    def unready_reason(self) -> str | None:
        """Being full is no reason."""
        if self.sessions.draining:
            return "draining"
        if self.dispatcher.wedged:
            return "an engine step hasn't come back"
        default = self.dispatcher.status(self.catalogue.default_engine)
        if default.state == "ready" and not default.healthy:
            return f"{default.name} hasn't spoken for long"
        return self.readiness.problem

    def gauges(self) -> Iterator[Gauge]:
        dispatcher, sessions = self.dispatcher, self.sessions
        yield Gauge("saystream_in_flight", "Utterances that hold a slot", lambda: dispatcher.in_flight)
        yield Gauge("saystream_queued", "Utterances that wait for a slot", lambda: dispatcher.queued)
        yield Gauge("saystream_load_ratio", "Part of the device that is in use", lambda: dispatcher.load)
        yield Gauge(
            "saystream_max_streams", "Utterances that may speak at once", lambda: dispatcher.max_streams
        )
        yield Gauge("saystream_listeners", "Utterances that are open", lambda: dispatcher.open_listeners)
        yield Gauge("saystream_streams", "Streams that engines have open", lambda: dispatcher.open_streams)
        yield Gauge("saystream_tasks", "Tasks of the event loop", _tasks)
        yield from cache_gauges(self.cache)
        yield Gauge("saystream_connections", "Connections that are open", lambda: len(sessions))
        yield Gauge("saystream_ready", "1 while new work may come", lambda: self.unready_reason() is None)
        yield Gauge("saystream_draining", "1 while no new work is taken", lambda: sessions.draining)

    def drain(self) -> None:
        """No new work; the process ends when the last utterance has, or drain_s from now."""
        if not self.sessions.draining:
            self.log.info("draining", connections=len(self.sessions), drain_s=self.settings.drain_s)
        self.sessions.drain(time.monotonic() + self.settings.drain_s)


def _tasks() -> int:
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:  # not on the loop
        return 0


def _clips_folder() -> Path | None:
    folder = user_cache_folder()
    return None if folder is None else folder / "clips"


def _cache(settings: Settings) -> PcmCache:
    if not settings.cache:
        return PcmCache(memory_bytes=0)
    return PcmCache(
        memory_bytes=settings.cache_memory_bytes,
        folder=settings.cache_dir or _clips_folder(),
        disk_bytes=settings.cache_disk_bytes,
    )


def _require_limited_keys(settings: Settings, keys: tuple[Key, ...]) -> None:
    """A table for a name that no key has limits nobody. Raises BadSettings."""
    known = {key.name for key in keys} or {OPEN.name}
    unknown = sorted(set(settings.key_limits) - known)
    if unknown:
        raise BadSettings(f"key_limits.{unknown[0]}: no key has this name")
