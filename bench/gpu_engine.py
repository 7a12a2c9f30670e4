"""One engine with one set of weights, measured in a process of its own: `python -m bench.gpu_engine TASK`.

So that what goes wrong, a device that answers no more or a load without an end, is the end of this process alone.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

from bench.device import Device, Taken, chosen
from bench.row import Row
from bench.speaker import Allowance, Speaker
from engines import registry
from engines.contract import Engine, EngineUnavailable, Facts, Fetching, OptionError, Source, info_of
from residency.giving_back import give_back

FIGURES = ("load", "first audio", "cost", "throughput", "cancel", "memory")
_SHARES = {"first audio": 2, "cost": 2, "throughput": 4, "cancel": 1}
"""Of the time that the load has left."""
_UNLOAD_S = 2.0
_ROUNDS, _ROUNDS_ON_THE_CPU = 50, 3
_LARGE_BYTES = 1_000_000_000
"""What a load takes at least, to say of it that it was given back: libraries keep some for good."""
Tiny = Callable[[Path], Source]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    label: str
    engine: str
    seconds: float
    """In all, loading included."""
    measuring_s: float
    """Of that, for the figures between load and unload."""
    folder: str
    """For what is made here; somebody else removes it."""
    recording: str
    """Of somebody who speaks, for engines that have no voice of their own."""
    device: str | None = None
    """None: CUDA if it is there."""
    tiny: bool = False
    path: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)


def measure(task: Task) -> Iterator[Row]:
    """Raises what the engine raises."""
    end_s = monotonic() + task.seconds
    engine = registry.find(task.engine)
    device = Device(_device(engine, task.device))
    source, facts = _identified(engine, _source(task), task.recording)
    if isinstance(engine, Fetching):
        engine.fetch(source)
    before = device.look()
    begin_s = device.now_s()
    model = engine.load(source, device.kind)
    load_s = device.now_s() - begin_s
    loaded = device.look()
    try:
        yield Row(
            f"{task.label}: load",
            f"{load_s:.1f} s, its own warming up included, on {device.label}",
            "",
            None,
            {"seconds": load_s},
        )
        speaker = Speaker(task.label, model, facts, info_of(engine.info, facts), device)
        yield from _figures(speaker, min(monotonic() + task.measuring_s, end_s - _UNLOAD_S))
        most = device.most()
    finally:
        model.unload()
    del speaker, model
    give_back()
    yield _memory(task.label, device, before=before, loaded=loaded, most=most, after=device.look())


def _figures(speaker: Speaker, end_s: float) -> Iterator[Row]:
    rounds = _ROUNDS if speaker.device.accelerator else _ROUNDS_ON_THE_CPU
    figures = {
        "first audio": speaker.first_audio,
        "cost": speaker.cost,
        "throughput": speaker.throughput,
        "cancel": speaker.cancel,
    }
    shares_left = sum(_SHARES.values())
    for name, figure in figures.items():
        allowance = Allowance(end_s, rounds)
        share = _SHARES[name] / shares_left
        shares_left -= _SHARES[name]
        if allowance.over:
            yield Row(f"{speaker.label}: {name}", "left out: no time was left", "", None)
            continue
        try:
            yield figure(allowance.part(share))
        except Exception as error:  # noqa: BLE001 - a batch that the memory is too small for stops that figure alone
            yield Row(f"{speaker.label}: {name}", f"failed: {_reason(error)}", "", reached=False)


def _memory(label: str, device: Device, *, before: Taken, loaded: Taken, most: Taken, after: Taken) -> Row:
    states = {"before": before, "loaded": loaded, "at the most": most, "after": after}
    kinds = ["process_bytes", *(["allocated_bytes", "reserved_bytes"] if device.accelerator else [])]
    taken = {kind: {state: float(getattr(each, kind)) for state, each in states.items()} for kind in kinds}
    told = [
        f"{kind.removesuffix('_bytes')} "
        + ", ".join(f"{state} {value / 1e6:.0f}" for state, value in values.items())
        for kind, values in taken.items()
    ]
    took_bytes = loaded.allocated_bytes - before.allocated_bytes
    kept_bytes = after.allocated_bytes - before.allocated_bytes
    judged = took_bytes >= _LARGE_BYTES
    return Row(
        f"{label}: memory",
        f"{'; '.join(told)} MB",
        "≥ 95 % of what was allocated given back" if judged else "",
        kept_bytes <= 0.05 * took_bytes if judged else None,
        {
            f"{state.replace(' ', '_')}_{kind}": value
            for kind, values in taken.items()
            for state, value in values.items()
        },
    )


def _device(engine: Engine, asked: str | None) -> str:
    """Raises EngineUnavailable. Where there is no accelerator each is measured on the CPU."""
    devices = engine.info.devices
    kind = chosen(asked, devices)
    if kind != "cpu" and kind not in devices:
        raise EngineUnavailable(f"{engine.info.name} runs on {', '.join(sorted(devices))}, not on {kind}")
    return kind


def _identified(engine: Engine, source: Source, recording: str) -> tuple[Source, Facts]:
    try:
        return source, engine.identify(source)
    except OptionError as error:
        if error.param != "voices" or "voices" in source.settings:
            raise
    voiced = replace(source, settings={**source.settings, "voices": {"recorded": recording}})
    return voiced, engine.identify(voiced)


def _source(task: Task) -> Source:
    defaults = _DEFAULTS.get(task.engine, {})
    if not task.tiny:
        return Source(task.path, {**defaults, **task.settings})
    made = TINY[task.engine](Path(task.folder) / task.engine)
    return replace(made, settings={**defaults, **made.settings})


_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "qwen": {"max_open": 16, "max_batch": 16},
    "dots": {"optimize": False},  # compiling takes most of the time that there is
}


def _tiny_qwen(folder: Path) -> Source:
    from tests.engines.tiny_qwen import make_checkpoint

    return Source(str(make_checkpoint(folder)))


def _tiny_voxcpm(folder: Path) -> Source:
    from tests.engines.tiny_voxcpm import make_checkpoint

    return Source(str(make_checkpoint(folder)), {"steps_per_token": 1})


def _tiny_dots(folder: Path) -> Source:
    from tests.engines.tiny_dots import make_checkpoint

    return Source(str(make_checkpoint(folder)))


def _tiny_pocket(folder: Path) -> Source:
    from tests.engines.tiny_pocket import make_checkpoint

    return Source(str(make_checkpoint(folder)))


TINY: Mapping[str, Tiny] = {
    "qwen": _tiny_qwen,
    "voxcpm": _tiny_voxcpm,
    "dots": _tiny_dots,
    "pocket": _tiny_pocket,
}
"""Random weights by which the libraries' own loading code is measured where no others are."""


def _reason(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or repr(error)


def main(task: Task) -> int:
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as rows:
        os.dup2(2, 1)  # libraries print, too
        try:
            for row in measure(task):
                print(json.dumps(asdict(row)), file=rows, flush=True)
        except Exception as error:  # noqa: BLE001 - whatever stops an engine stops it alone
            row = Row(task.label, f"failed: {_reason(error)}", "", reached=False)
            print(json.dumps(asdict(row)), file=rows, flush=True)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Task(**json.loads(sys.argv[1]))))
