"""Voices that an operator names for recordings on disk, with or without what is said in them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines.contract import CloneMode, EngineUnavailable, OptionError
from voices.reference import Reference


@dataclass(frozen=True, slots=True)
class RecordedVoice:
    name: str
    audio: Path
    text: str | None
    """What is said in it, word for word."""

    @property
    def mode(self) -> CloneMode:
        return "audio" if self.text is None else "audio+text"

    def read(self) -> Reference:
        """Raises EngineUnavailable."""
        import soundfile

        try:
            samples, rate_hz = soundfile.read(self.audio, dtype="float32", always_2d=True)
        except (OSError, RuntimeError) as error:
            raise EngineUnavailable(
                f"the voice {self.name!r} can't be read from {self.audio}: {error}"
            ) from error
        return Reference(samples.mean(axis=1), rate_hz, self.text, None)


def recorded_voices(voices: Any, *, taken: Collection[str] = ()) -> tuple[RecordedVoice, ...]:
    """From a table of names and paths, or of tables of `audio` and `text`. Raises OptionError."""
    if not isinstance(voices, Mapping):
        raise OptionError("voices", "must be a table of names and files")
    for name in taken:
        if name in voices:
            raise OptionError("voices", f"{name!r} is the name of a voice without a recording")
    return tuple(_recorded(name, value) for name, value in voices.items())


def _recorded(name: str, value: Any) -> RecordedVoice:
    table = value if isinstance(value, Mapping) else {"audio": value}
    audio, text = table.get("audio"), table.get("text")
    if not set(table) <= {"audio", "text"} or not isinstance(audio, str):
        raise OptionError("voices", f"the voice {name!r} must be a path, or a table of audio and text")
    if text is not None and not (isinstance(text, str) and text.strip()):
        raise OptionError("voices", f"the text of the voice {name!r} must say what is spoken in it")
    file = Path(audio).expanduser()
    if not file.is_file():
        raise OptionError("voices", f"the voice {name!r} has no file {file}")
    return RecordedVoice(name, file, text)
