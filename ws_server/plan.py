"""What an `open` was resolved to: everything that an utterance needs to know about its engine and its output."""

from dataclasses import dataclass, replace
from typing import Any

from engines.contract import Facts, Info
from protocol.errors import ErrorCode
from protocol.messages import Format
from voices.reference import Clone
from ws_server.text import SegmentRules


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    unit: str
    """Residency's name for what is loaded."""
    engine: str
    voice: str
    clone: Clone | None = None
    """For a voice that was uploaded."""
    language: str
    """BCP-47, a key of Info.languages."""
    facts: Facts
    info: Info
    scripts: frozenset[str] | None
    options: Any
    """An instance of Info.options, or None."""
    seed: int
    speed: float
    format: Format
    sample_rate_hz: int
    """Of the output."""
    rules: SegmentRules
    total_chars: int
    """The server's limit, or the token's."""

    @property
    def voice_content(self) -> str:
        """Another for another sound of the voice: a built-in one is part of its checkpoint, an uploaded one's id is a
        hash of it.
        """
        return self.voice if self.clone is None else f"{self.clone.voice_id} {self.clone.mode}"


@dataclass(frozen=True, slots=True)
class Caps:
    """How much of a text is made in one go, where a client wants it otherwise than its engine; 0: as much as comes."""

    max_chars: int | None = None
    max_sentences: int | None = None

    def of(self, rules: SegmentRules) -> SegmentRules:
        return replace(
            rules,
            max_chars=rules.max_chars if self.max_chars is None else self.max_chars,
            max_sentences=rules.max_sentences if self.max_sentences is None else self.max_sentences,
        )


NO_CAPS = Caps()


class Refusal(Exception):  # noqa: N818 - a plain answer to a client, not a fault of ours
    """An `open` that can't be served. The fields are those of the wire's `error`."""

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        param: str | None = None,
        value: Any = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code: ErrorCode = code
        self.param = param
        self.value = value
        self.retry_after_s = retry_after_s
