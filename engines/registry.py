"""Engines by name: ours and those that other distributions bring, imported on demand."""

from importlib import import_module
from importlib.metadata import entry_points

from engines.contract import Engine, EngineUnavailable

ENTRY_POINT_GROUP = "saystream.engines"
_OURS = (
    "hibari",
    "vits",
    "kokoro",
    "pocket",
    "qwen",
    "voxcpm",
    "dots",
    "nano-vllm-voxcpm",
    "cosyvoice",
    "mlx-qwen",
    "mlx-voxcpm",
    "mlx-pocket",
    "tone",
)
"""Each the name of a module of this package that offers `engine`; the first is the default."""


class UnknownEngine(LookupError):  # noqa: N818 - named by situation
    """No engine has this name; `name` is the one asked for."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no engine {name!r}; there are: {', '.join(names())}")
        self.name = name


def names() -> list[str]:
    """Ours first, then those found through the entry point group `saystream.engines`; nothing is imported."""
    theirs = {entry.name for entry in entry_points(group=ENTRY_POINT_GROUP)}
    return [*_OURS, *sorted(theirs.difference(_OURS))]


def describe(name: str) -> Engine:
    """The engine whether or not its library is installed, for its `info` alone.

    Raises UnknownEngine, or EngineUnavailable where another distribution's module can't be imported.
    """
    if name in _OURS:
        engine: Engine = import_module(_module(name)).engine
        return engine
    for entry in entry_points(group=ENTRY_POINT_GROUP, name=name):
        try:
            found: Engine = entry.load()
        except (ImportError, AttributeError) as error:
            raise EngineUnavailable(f"engine {name!r} ({entry.value}) can't be imported: {error}") from error
        return found
    raise UnknownEngine(name)


def target(name: str) -> str:
    """Where it is found by another interpreter, as `module:name`. Raises UnknownEngine."""
    if name in _OURS:
        return f"{_module(name)}:engine"
    for entry in entry_points(group=ENTRY_POINT_GROUP, name=name):
        return entry.value
    raise UnknownEngine(name)


def _module(name: str) -> str:
    return f"engines.{name.replace('-', '_')}"


def missing(engine: Engine) -> str | None:
    """The command that installs the engine's library, or why nothing can here; None: it is installed."""
    if engine.info.version:
        return None
    nowhere: str | None = getattr(engine, "unsupported", None)
    if nowhere is not None:
        return nowhere
    extra = f"[{engine.info.extra}]" if engine.info.extra else ""
    return f"pip install 'saystream{extra}'"


def find(name: str) -> Engine:
    """An engine that can be loaded. Raises UnknownEngine, or EngineUnavailable with a command that helps."""
    engine = describe(name)
    if (command := missing(engine)) is not None:
        raise EngineUnavailable(f"the library of engine {name!r} isn't installed: {command}")
    return engine
