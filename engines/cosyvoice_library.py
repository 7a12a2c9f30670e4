"""The official checkout, imported and loaded as its own example does, without its noise and its downloads."""

import importlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from engines.accelerator import require_device
from engines.contract import EngineUnavailable
from engines.cosyvoice_settings import CosyvoiceSettings, Generation

_OTHERS = Path("third_party") / "Matcha-TTS"


def load_library(folder: Path, generation: Generation, settings: CosyvoiceSettings, device: str) -> Any:
    """Its AutoModel. Raises EngineUnavailable."""
    if not (settings.folder / _OTHERS / "matcha").is_dir():
        raise EngineUnavailable(
            f"{settings.folder} lacks its submodules: git submodule update --init --recursive"
        )
    if device == "cpu":
        # It takes whatever PyTorch sees.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    sys.path[:0] = [str(settings.folder), str(settings.folder / _OTHERS)]
    try:
        require_device(importlib.import_module("torch"), device)
        cli = importlib.import_module("cosyvoice.cli.cosyvoice")
        _hush(cli)
        return cli.AutoModel(model_dir=str(folder), **_arguments(generation, settings))
    except EngineUnavailable:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or repr(error)
        raise EngineUnavailable(f"cosyvoice couldn't be loaded: {reason}") from error


def _arguments(generation: Generation, settings: CosyvoiceSettings) -> "dict[str, bool]":
    given = {"fp16": settings.fp16, "load_trt": settings.trt}
    return given if generation == 3 else {**given, "load_jit": settings.jit}


def _hush(cli: Any) -> None:
    """It sets the root logger to DEBUG and draws a bar for each text."""
    logging.getLogger().setLevel(logging.WARNING)
    cli.tqdm = _without_a_bar


def _without_a_bar(texts: "Iterable[Any]") -> "Iterable[Any]":
    return texts


def is_talker(thread: threading.Thread) -> bool:
    """The library gives each utterance's network a thread that it never ends."""
    return "llm_job" in thread.name or getattr(getattr(thread, "_target", None), "__name__", "") == "llm_job"


def hush_talkers() -> Callable[[], None]:
    """A thread that is ended by `abandon` says nothing of it; what is returned takes that back."""
    theirs = threading.excepthook

    def ended(what: Any) -> None:
        if not (issubclass(what.exc_type, KeyError) and what.thread is not None and is_talker(what.thread)):
            theirs(what)

    def take_back() -> None:
        if threading.excepthook is ended:
            threading.excepthook = theirs

    threading.excepthook = ended
    return take_back


def abandon(network: Any, *, patience_s: float) -> bool:
    """Of `AutoModel.model`: ends the thread of an utterance that nobody wants any more and forgets what is kept for it.

    Its next token finds no list to go to. Whether it has ended.
    """
    tables = [
        value for name, value in vars(network).items() if name.endswith("_dict") and isinstance(value, dict)
    ]
    for table in tables:
        table.clear()
    talkers = [thread for thread in threading.enumerate() if is_talker(thread)]
    for thread in talkers:
        thread.join(patience_s)
    for table in tables:
        table.clear()
    return not any(thread.is_alive() for thread in talkers)
