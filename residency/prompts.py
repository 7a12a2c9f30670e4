"""The prompts that one loaded model has in memory: made once, found again in a store, the least used let go."""

import logging
from collections import OrderedDict
from typing import Any, Protocol

from engines.contract import EngineError, Model, ModelLost
from voices.reference import Clone, Reference

log = logging.getLogger(__name__)


class PromptSource(Protocol):
    """Called from lanes; may block for as long as a file takes."""

    def stored(self, clone: Clone) -> bytes | None:
        """What `keep` was given, for the same checkpoint."""
        ...

    def keep(self, clone: Clone, prompt: bytes) -> None:
        """In the place of one that there may be; never raises for a store that fails."""
        ...

    def reference(self, clone: Clone) -> Reference:
        """Raises what says that the voice is gone or broken."""
        ...


class LivePrompts:
    """Of one model, used by its lane alone; the recordings themselves aren't kept."""

    def __init__(self, source: PromptSource | None, model: Model[Any, Any], *, max_bytes: int) -> None:
        self._source = source
        self._model = model
        self._max_bytes = max_bytes
        self._live: OrderedDict[Clone, tuple[Any, int]] = OrderedDict()
        self._live_bytes = 0

    def __len__(self) -> int:
        return len(self._live)

    def get(self, clone: Clone) -> Any:
        """From memory, else from the store, else computed, which is slow. Raises what the engine or the source does."""
        found = self._live.get(clone)
        if found is not None:
            self._live.move_to_end(clone)
            return found[0]
        if self._source is None:
            raise EngineError(f"this engine has no voice {clone.voice_id!r}")
        prompt, size_bytes = self._from_store(self._source, clone) or self._computed(self._source, clone)
        self._live[clone] = (prompt, size_bytes)
        self._live_bytes += size_bytes
        while self._live_bytes > self._max_bytes and len(self._live) > 1:
            self._live_bytes -= self._live.popitem(last=False)[1][1]
        return prompt

    def _from_store(self, source: PromptSource, clone: Clone) -> tuple[Any, int] | None:
        data = source.stored(clone)
        if data is None:
            return None
        try:
            return self._model.restore(data), len(data)
        except ModelLost:
            raise
        except Exception:
            log.exception("a stored prompt of %s can't be used and is computed again", clone.voice_id)
            return None

    def _computed(self, source: PromptSource, clone: Clone) -> tuple[Any, int]:
        data = self._model.prepare(source.reference(clone), clone.mode)
        prompt = self._model.restore(data)
        source.keep(clone, data)
        return prompt, len(data)
