"""What an utterance still has to say, in order: each segment out of the cache, or made by the device."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from engines.contract import Request, Samples, Word
from pcm_cache.cache import PcmCache, Take
from pcm_cache.clip import Clip
from residency.dispatcher import Dispatcher
from residency.listener import Listener, StepTiming
from ws_server.announcer import Announcer
from ws_server.clip_key import clip_key
from ws_server.heard import SpokenSegment
from ws_server.outgoing import FlushMark, Outgoing
from ws_server.plan import Plan
from ws_server.tally import Tally
from ws_server.text.segment import TextSegment

BACKLOG_S = 1.0
"""Nothing more is taken out of the cache while so much is waiting to be sent: an hour of stored speech isn't laid out
in memory, and a file has time to be read."""


@dataclass(slots=True, eq=False)
class _Part:
    segment: TextSegment
    spoken: SpokenSegment
    request: Request
    cut_s: float
    digest: str | None
    """Its key; None: it is neither looked up nor kept."""
    source: Literal["device", "cache", "file", "clip"] = "device"
    """To be made; to be looked up; being read; found."""
    skipped_chars: int = 0
    """Of the open segment's speakable text, those that an earlier part says."""
    clip: Clip | None = None
    job: int | None = None
    """Its number, once the device has been asked."""
    chunks: list[Samples] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)


class Script:
    """The front is said first. The device is asked for a segment only when nothing stored is before it, so its jobs
    are in order and nobody holds a slot while what is stored is played. Lives on the event loop.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        listener: Listener,
        dispatcher: Dispatcher,
        cache: PcmCache | None,
        announcer: Announcer,
        outgoing: Outgoing,
        tally: Tally,
        on_read: Callable[[], None],
    ) -> None:
        """`cache` None: not for this one. `on_read`: a file has been read; call `advance`."""
        self._plan = plan
        self._listener = listener
        self._dispatcher = dispatcher
        self._cache = cache
        self._announcer = announcer
        self._outgoing = outgoing
        self._tally = tally
        self._on_read = on_read
        self._parts: deque[_Part | FlushMark] = deque()
        self._asked = 0
        """So many from the front are marks or jobs."""
        self._unasked = 0
        """Segments that the device has to make and wasn't asked for."""
        self._made_samples = 0
        """At the engine's rate."""
        self._whole = False
        self._said_chars = 0
        """Of the segment that isn't cut yet, what parts say that take no more of it."""

    def __len__(self) -> int:
        return len(self._parts)

    def add(self, segment: TextSegment, spoken: SpokenSegment, now_s: float) -> None:
        """A segment that has been cut; of one that grew, its end."""
        if self._growing is not None and self._go_on(self._growing, segment, spoken, last=True):
            self._said_chars = 0
            return
        rest, self._said_chars = segment.rest(self._said_chars), 0
        if rest is None:
            return
        spoken.start_char = rest.start_char
        request = self._request(rest)
        part = _Part(rest, spoken, request, now_s, self._digest(request))
        if self._cache is not None and part.digest is not None and self._cache.may_have(part.digest):
            part.source = "cache"
            self._tally.stored += self._cache.holds(part.digest)
        else:
            self._unasked += 1
        self._parts.append(part)

    @property
    def may_grow(self) -> bool:
        """The segment that isn't cut yet can be spoken already: nothing else is to be said, or it is what grows."""
        return not self._parts or self._growing is not None

    @property
    def _growing(self) -> _Part | None:
        last = self._parts[-1] if self._parts else None
        return last if isinstance(last, _Part) and not last.request.last else None

    def grow(self, known: TextSegment, spoken: SpokenSegment, now_s: float) -> None:
        """What is known of the segment that isn't cut yet, each time from its start; `add` it when it is."""
        if self._growing is not None and self._go_on(self._growing, known, spoken, last=False):
            return
        rest = known.rest(self._said_chars)
        if rest is not None:
            spoken.start_char = rest.start_char
            request = replace(self._request(rest), last=False)
            self._parts.append(_Part(rest, spoken, request, now_s, None, skipped_chars=self._said_chars))
            self._unasked += 1

    def _go_on(self, part: _Part, known: TextSegment, spoken: SpokenSegment, *, last: bool) -> bool:
        """False: the device has ended it, for others; what it hasn't got of the text is for another part."""
        segment = known.rest(part.skipped_chars) or part.segment
        more = segment.speakable[len(part.request.text) :]
        if part.job is not None and not self._dispatcher.extend(self._listener, part.job, more, last=last):
            self._end_early(part)
            return False
        part.segment = segment
        part.request = replace(part.request, text=part.request.text + more, last=last)
        part.spoken.grow(segment.end_char, text_s=spoken.text_s, cut_s=spoken.cut_s)
        if last:
            part.digest = self._digest(self._request(segment))
        return True

    def _end_early(self, part: _Part) -> None:
        said = part.segment.speakable[: len(part.request.text)]
        self._said_chars = part.skipped_chars + len(said)
        part.request = replace(part.request, last=True)

    def add_mark(self, mark: FlushMark) -> None:
        self._parts.append(mark)

    def finish(self) -> None:
        """Nothing more will be added."""
        self._whole = True

    @property
    def wants_room(self) -> bool:
        """Something stored waits until less is waiting to be sent."""
        return bool(self._parts) and isinstance(part := self._parts[0], _Part) and part.source == "cache"

    @property
    def waiting_s(self) -> float:
        """What is made and waits to be sent."""
        made_s = self._made_samples / self._plan.facts.sample_rate_hz
        return made_s - self._outgoing.taken_samples / self._plan.sample_rate_hz

    def advance(self, now_s: float) -> None:
        """Let out what needs no device and ask the device for the rest, as far as it is time."""
        while self._parts and self._let_out(self._parts[0], now_s):
            self._pop()
        while self._asked < len(self._parts):
            part = self._parts[self._asked]
            if isinstance(part, _Part):
                if part.source != "device":
                    break
                part.job = self._dispatcher.submit(self._listener, part.request, part.cut_s)
                self._unasked -= 1
            self._asked += 1
        if self._whole and not self._unasked:
            self._listener.finish_text()

    def made(
        self, job: int, samples: Samples, words: tuple[Word, ...], *, last: bool, timing: StepTiming
    ) -> None:
        """A step's result; `advance` afterwards if it is the last."""
        part = self._parts[0]
        assert isinstance(part, _Part) and part.job == job  # noqa: S101, PT018 - jobs come in order
        self._made_samples += len(samples)
        self._announcer.chunk(
            part.segment, part.spoken, samples, words, last=last, started_s=timing.started_s
        )
        if self._cache is not None and (part.digest is not None or not part.request.last):
            part.chunks.append(samples)
            part.words.extend(words)
            if last and part.digest is not None:
                rate_hz = self._plan.facts.sample_rate_hz
                self._cache.keep(Take(part.digest, part.chunks, part.words, rate_hz))
        if last:
            if not part.request.last:
                self._end_early(part)
            self._pop()

    # Inside ------------------------------------------------------------------------------------------------

    def _request(self, segment: TextSegment) -> Request:
        plan = self._plan
        return Request(
            text=segment.speakable,
            language=plan.language,
            voice=plan.voice,
            speed=plan.speed,
            seed=plan.seed,
            options=plan.options,
        )

    def _digest(self, request: Request) -> str | None:
        if self._cache is None:
            return None
        try:
            return clip_key(request, self._plan.facts, self._plan.info, self._plan.voice_content).digest
        except TypeError:  # an option that isn't a plain value
            return None

    def _pop(self) -> None:
        self._parts.popleft()
        self._asked = max(self._asked - 1, 0)

    def _let_out(self, front: _Part | FlushMark, now_s: float) -> bool:
        """False: it isn't its time."""
        if isinstance(front, FlushMark):
            self._outgoing.put(front)
            return True
        if front.source == "cache" and self.waiting_s < BACKLOG_S:
            self._look_up(front)
        if front.clip is None:
            return False
        self._replay(front, front.clip, now_s)
        return True

    def _look_up(self, part: _Part) -> None:
        assert self._cache is not None and part.digest is not None  # noqa: S101, PT018 - its source says so
        part.clip = self._cache.recall(part.digest)
        if part.clip is not None:
            part.source = "clip"
        elif self._cache.fetch(part.digest, lambda clip: self._read(part, clip)):
            part.source = "file"
        else:
            self._has_to_be_made(part)

    def _read(self, part: _Part, clip: Clip | None) -> None:
        if clip is None:
            self._has_to_be_made(part)
        else:
            part.source, part.clip = "clip", clip
        self._on_read()

    def _has_to_be_made(self, part: _Part) -> None:
        part.source = "device"
        self._unasked += 1

    def _replay(self, part: _Part, clip: Clip, now_s: float) -> None:
        """Say it again: the same words and samples, on the same way out."""
        self._tally.cache_hits += 1
        self._tally.steps(now_s, now_s, sound=True)
        self._made_samples += len(clip.samples)
        self._dispatcher.replay(self._listener, len(clip.samples) / clip.sample_rate_hz)
        self._announcer.chunk(part.segment, part.spoken, clip.samples, clip.words, last=True, started_s=now_s)
