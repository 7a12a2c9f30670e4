"""Every setting of the server: flags before SAYSTREAM_* variables before a TOML file before these defaults."""

import argparse
import os
import socket
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    CliSettingsSource,
    EnvSettingsSource,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from protocol.limits import Limits
from ws_server.quotas import KeyLimits, Quotas

CONFIG_VARIABLE = "SAYSTREAM_CONFIG"
Seconds = Annotated[float, Field(gt=0, le=1e7)]
Count = Annotated[int, Field(ge=1, le=10_000_000)]
Bytes = Annotated[int, Field(ge=0, le=1 << 50)]
Names = Annotated[tuple[str, ...], NoDecode]
_DEFAULT = Limits()


class BadSettings(Exception):  # noqa: N818 - named by situation
    """The settings can't be used; the message has one line for each thing that is wrong."""


class KeyTable(BaseModel):
    """What differs for one key."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    streams: Count | None = None
    chars_per_min: Count | None = None
    connections_per_min: Count | None = None


class Settings(BaseSettings):
    """Speak text while it is being written: a WebSocket for text in and speech out, and a page that shows it."""

    model_config = SettingsConfigDict(env_prefix="SAYSTREAM_", extra="forbid", frozen=True)

    config: Path | None = Field(default=None, description="a TOML file with any of these settings")

    # Where it listens, and to whom
    host: str = Field(default="127.0.0.1", description="address to listen on; 0.0.0.0 or :: for every one")
    port: int = Field(default=8765, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    tls_cert: Path | None = Field(
        default=None, description="certificate chain (PEM); with tls_key it speaks TLS"
    )
    tls_key: Path | None = Field(default=None, description="private key of tls_cert (PEM)")
    keys: Annotated[tuple[SecretStr, ...], NoDecode] = Field(
        default=(), description="name:role:secret, role speak or admin; a comma between several"
    )
    keys_file: Path | None = Field(
        default=None, description="file with a key a line, # for comments; read again on SIGHUP"
    )
    allow_open: bool = Field(default=False, description="listen beyond this machine without keys")
    hosts: Names = Field(
        default=(), description="names that this server is reached by, besides addresses and localhost"
    )
    origins: Names = Field(default=(), description="web origins whose pages may use this server; * for any")
    trusted_proxies: Names = Field(
        default=(), description="addresses of proxies whose X-Forwarded-* headers are believed"
    )
    max_connections: Count = Field(default=2000, description="sockets at once; more are refused with 503")
    refuse_when_full: bool = Field(
        default=False,
        description="refuse a new socket when neither a slot nor a queue place is free (behind a balancer)",
    )

    # What it speaks with
    engine: str = Field(default="hibari", description="the engine of an open that names none")
    voice: str | None = Field(
        default=None, description="the voice of an open that names none; else the engine's first"
    )
    engines: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="a table of settings for each engine, by its name",
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = Field(
        default="auto", description="where engines run; auto: on the CPU those that can"
    )
    coload: bool = Field(
        default=False, description="several engines at once in an accelerator's memory, as far as they fit"
    )
    memory_bytes: Annotated[int, Field(ge=1, le=1 << 50)] | None = Field(
        default=None, description="what engines may take of an accelerator's memory; else all it has"
    )
    engine_idle_s: Seconds = Field(
        default=900, description="an engine that isn't pinned leaves memory so long after its last work"
    )
    swap_wait_s: Seconds = Field(
        default=2, description="longest wait for an engine while listeners of another keep its place"
    )
    load_deadline_s: Seconds = Field(
        default=600, description="an engine that takes longer to load is given up"
    )
    engine_threads: int = Field(default=1, ge=1, le=64, description="lanes for engines on the CPU")
    max_streams: Count | None = Field(
        default=None, description="utterances that may speak at once; else measured at start"
    )
    max_load: float = Field(
        default=0.8, gt=0, le=100, description="part of a lane that admitted utterances may need"
    )
    max_step_ms: float = Field(
        default=500, gt=0, le=60_000, description="longest engine step while others wait"
    )
    step_deadline_s: Seconds = Field(
        default=30, description="an engine step that takes longer is given up as stalled"
    )

    # Voices that are uploaded
    voices_dir: Path | None = Field(
        default=None, description="folder of uploaded voices; else in the user's data folder"
    )
    voice_bytes: Bytes = Field(default=20_000_000, description="bytes of an uploaded recording")
    voice_s: float = Field(default=60, ge=1, le=600, description="seconds of an uploaded recording")
    live_prompt_bytes: Bytes = Field(
        default=256 << 20, description="what each lane keeps in memory of voices that an engine has prepared"
    )

    # What it keeps of what it has said
    cache: bool = Field(default=True, description="keep finished audio and say it again from there")
    cache_memory_bytes: Bytes = Field(default=64 << 20, description="finished audio kept in memory")
    cache_disk_bytes: Bytes = Field(default=1 << 30, description="finished audio kept on disk; 0: none is")
    cache_dir: Path | None = Field(
        default=None, description="folder of what is kept on disk; else in the user's cache folder"
    )

    # What a client may ask for; the wire page has their meaning
    utterances: Count = Field(default=_DEFAULT.utterances, description="open utterances of one connection")
    text_chars: Count = Field(default=_DEFAULT.text_chars, description="characters of one text message")
    total_chars: Count = Field(default=_DEFAULT.total_chars, description="characters of one utterance")
    message_bytes: int = Field(
        default=_DEFAULT.message_bytes, ge=1024, le=4 << 20, description="bytes of one message"
    )
    queue: int = Field(
        default=_DEFAULT.queue, ge=0, le=1_000_000, description="utterances that may wait for a slot"
    )
    idle_s: Seconds = Field(
        default=_DEFAULT.idle_s, description="a connection without an open utterance is closed after"
    )
    utterance_idle_s: Seconds = Field(
        default=_DEFAULT.utterance_idle_s, description="an utterance without text ends after"
    )
    queue_wait_s: Seconds = Field(default=_DEFAULT.queue_wait_s, description="longest wait for a slot")
    lead_ms: float = Field(
        default=_DEFAULT.lead_ms, gt=0, le=1e9, description="longest lead a client may ask for"
    )
    receipt_s: Seconds = Field(
        default=_DEFAULT.receipt_s, description="a finished utterance can be cancelled for so long"
    )
    wait_ms: float = Field(
        default=_DEFAULT.wait_ms, ge=0, le=60_000, description="silence that ends a sentence"
    )
    lead_ms_default: float = Field(
        default=_DEFAULT.lead_ms_default, ge=0, le=1e9, description="lead of an open without one"
    )
    cushion_ms: float = Field(
        default=_DEFAULT.cushion_ms, ge=0, le=60_000, description="cushion of an open without one"
    )
    stall_ms: float = Field(
        default=_DEFAULT.stall_ms, ge=0, le=600_000, description="silence that ends unfinished text"
    )
    receipts: Count = Field(
        default=_DEFAULT.receipts, description="finished utterances that a connection remembers"
    )
    pending_flushes: Count = Field(
        default=_DEFAULT.pending_flushes, description="unanswered flushes of one utterance"
    )
    unsent_ends: Count = Field(
        default=_DEFAULT.unsent_ends, description="unsent ends of a connection that doesn't read"
    )
    messages_per_s: Count | None = Field(
        default=10_000, description="messages of one connection, ten seconds' worth at once"
    )
    key_streams: Count | None = Field(default=None, description="open utterances of one key")
    key_chars_per_min: Count | None = Field(default=None, description="characters of one key, each minute")
    key_connections_per_min: Count | None = Field(
        default=None, description="new connections of one key, each minute"
    )
    key_limits: dict[str, KeyTable] = Field(
        default_factory=dict, description="a table of those three for each key that differs, by its name"
    )
    ping_s: Seconds = Field(default=20, description="between pings, and the time to answer one")
    stalled_reader_s: Seconds = Field(
        default=60, description="a client that takes no byte for so long is cut"
    )
    tts_s: Seconds = Field(default=600, description="longest time that one POST /v1/tts may take to be made")
    request_head_s: Seconds = Field(default=10, description="a request's head has to arrive within")
    drain_s: float = Field(
        default=30, ge=0, le=86_400, description="longest wait for the last utterance when it stops"
    )

    # What others see of it
    page: bool = Field(default=True, description="serve the page that speaks live at /")
    metrics: bool = Field(default=True, description="serve /metrics")
    replica: str = Field(
        default_factory=socket.gethostname, max_length=128, description="name of this process"
    )
    log_format: Literal["console", "json"] = Field(default="console", description="form of a log line")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="least level that is logged"
    )
    log_text: bool = Field(default=False, description="log what is spoken, too")

    @field_validator("keys", "hosts", "origins", "trusted_proxies", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = [value]
        if isinstance(value, list):
            parts = [
                part for item in value for part in (item.split(",") if isinstance(item, str) else [item])
            ]
            return tuple(part.strip() if isinstance(part, str) else part for part in parts if part != "")
        return value

    @model_validator(mode="after")
    def _tls_is_whole(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key are given together or not at all")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # `load` hands over all of its sources; a plain Settings(...) takes its arguments alone, so that tests and
        # embedders aren't shaped by the environment.
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)

    def quotas(self) -> Quotas:
        default = KeyLimits(
            streams=self.key_streams,
            chars_per_min=self.key_chars_per_min,
            connections_per_min=self.key_connections_per_min,
        )
        tables = self.key_limits.items()
        return Quotas(
            default,
            {name: default.with_changes(table.model_dump(exclude_unset=True)) for name, table in tables},
        )

    @property
    def limits(self) -> Limits:
        return Limits(**{name: getattr(self, name) for name in LIMIT_NAMES})


LIMIT_NAMES = tuple(name for name in Limits.__dataclass_fields__ if name in Settings.model_fields)


def load(argv: list[str] | None = None, *, prog: str = "saystream serve") -> Settings:
    """Read the settings. Raises BadSettings; exits, as argparse does, on --help and unknown flags."""
    flags = _flags(argv or [], prog)
    env = EnvSettingsSource(Settings, case_sensitive=False)
    try:
        values = {**_from_file(flags.get("config") or os.environ.get(CONFIG_VARIABLE)), **env(), **flags}
        return Settings(**values)
    except ValidationError as error:
        raise BadSettings(_lines(error)) from None
    except SettingsError as error:
        raise BadSettings(str(error)) from None


def _flags(argv: list[str], prog: str) -> dict[str, Any]:
    source: CliSettingsSource[argparse.ArgumentParser] = CliSettingsSource(
        Settings,
        cli_prog_name=prog,
        cli_parse_args=argv,
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_hide_none_type=True,
        cli_avoid_json=True,
    )
    return dict(source())


def _from_file(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    file = Path(path)
    try:
        read = TomlConfigSettingsSource(Settings, toml_file=file)
    except ValueError as error:
        raise BadSettings(f"{file}: not valid TOML: {error}") from None
    except OSError as error:
        raise BadSettings(f"{file}: {error.strerror}") from None
    if not file.is_file():
        raise BadSettings(f"{file}: there is no such file")
    return dict(InitSettingsSource(Settings, read.toml_data)())


def _lines(error: ValidationError) -> str:
    """Without the values: one of them may be a secret."""
    rows = []
    for item in error.errors(include_input=False, include_url=False):
        where = ".".join(str(part) for part in item["loc"]) or "settings"
        what = "there is no such setting" if item["type"] == "extra_forbidden" else item["msg"]
        rows.append(f"{where}: {what}")
    return "\n".join(rows)
