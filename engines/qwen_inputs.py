"""What the talker begins with, made by the library's own public calls up to the point where its loop would begin."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

Kind = Literal["base", "custom_voice", "voice_design"]


class _Begun(Exception):  # noqa: N818 - not an error: the call has come as far as it is wanted
    pass


@dataclass(frozen=True, slots=True)
class Wording:
    """What is said and how, in the library's words."""

    text: str
    language: str
    instruct: str | None
    options: Mapping[str, Any]


class Inputs:
    def __init__(self, library: Any, kind: Kind) -> None:
        self._library = library
        self._kind = kind
        self._marks = sorted(_marks(library.processor.tokenizer), key=len, reverse=True)

    def read(self, wording: Wording, speaker: str | None, prompt: Any) -> dict[str, Any]:
        """The arguments of talker.generate. `speaker`: of CustomVoice; `prompt`: of a Base checkpoint."""
        words = {
            "text": self.plain(wording.text),
            "language": wording.language,
            **wording.options,
        }
        match self._kind:
            case "base":
                return self._begin(
                    lambda: self._library.generate_voice_clone(**words, voice_clone_prompt=[prompt])
                )
            case "custom_voice":
                return self._begin(
                    lambda: self._library.generate_custom_voice(
                        **words, speaker=speaker, instruct=self.plain(wording.instruct or "")
                    )
                )
            case "voice_design":
                return self._begin(
                    lambda: self._library.generate_voice_design(
                        **words, instruct=self.plain(wording.instruct or "")
                    )
                )

    def plain(self, text: str) -> str:
        """Without what the tokenizer takes for its own marks: a client's text must not end the text."""
        before = None
        while before != text:
            before = text
            for mark in self._marks:
                text = text.replace(mark, " ")
        return text

    def _begin(self, call: Callable[[], object]) -> dict[str, Any]:
        talker = self._library.model.talker
        given: dict[str, Any] = {}

        def begin(**arguments: Any) -> None:
            given.update(arguments)
            raise _Begun

        talker.generate = begin
        try:
            with torch.inference_mode():
                call()
        except _Begun:
            return given
        finally:
            del talker.generate
        raise RuntimeError("the library made speech without its talker")


def _marks(tokenizer: Any) -> set[str]:
    added = {str(token) for token in tokenizer.added_tokens_decoder.values()}
    return {mark for mark in added | set(tokenizer.all_special_tokens) if mark.strip()}
