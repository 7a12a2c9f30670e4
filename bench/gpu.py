"""One short look at an accelerator: how its engines start, speak, share it, stop, and give their memory back.

`python -m bench.gpu`; without CUDA it measures a little on the CPU. Tiny random checkpoints always, real ones where
they are named, by `--weights` or by the environment: BENCH_WEIGHTS_QWEN=/srv/Qwen3-TTS-12Hz-1.7B-Base.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import soundfile

from bench.bare import Bare
from bench.gpu_engine import FIGURES, TINY, Task
from bench.row import Row, document, table
from engines import registry
from engines.contract import EngineUnavailable

ROOT = Path(__file__).parents[1]
_ENGINES = "qwen,voxcpm,dots,pocket"
_SECONDS = 200.0
_LEAST_S = 5.0
"""Less isn't worth the start of a process."""
_ENDING_S = 3.0
"""Between the end of the measuring and that of its process."""
_MEASURING = 0.75
"""Of its share, once it is loaded."""
_REAL_WEIGHT, _TINY_WEIGHT = 3, 1
"""By which the time is shared out."""
_SAID = "The boats come in early, and by noon the whole harbour smells of salt and coffee."


@dataclass(frozen=True, slots=True)
class Subject:
    engine: str
    weights: str
    tiny: bool = False
    path: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return f"{self.engine} ({self.weights})"

    @property
    def weight(self) -> int:
        return _TINY_WEIGHT if self.tiny else _REAL_WEIGHT


def subjects(names: Sequence[str], weights: Mapping[str, str]) -> list[Subject]:
    """`weights`: a path by engine, or the engine's table of settings as JSON. Raises ValueError."""
    found = []
    for name in names:
        if name in TINY:
            found.append(Subject(name, "tiny", tiny=True))
        if name in weights:
            found.append(_real(name, weights[name]))
        elif name not in TINY:
            found.append(Subject(name, "as it comes"))
    return found


def _real(name: str, value: str) -> Subject:
    if not value.startswith("{"):
        return Subject(name, Path(value).name, path=value)
    settings = json.loads(value)
    path = settings.pop("path", None)
    return Subject(name, Path(path).name if path else "as set", path=path, settings=settings)


def run(
    chosen: Sequence[Subject], *, device: str | None, seconds: float, recording: Path, folder: Path
) -> Iterator[Row]:
    """A process for each. Loading may take half of the others' time, too; what one leaves is the others'."""
    end_s = monotonic() + seconds
    environment = shown(device)
    weight_left = sum(subject.weight for subject in chosen)
    for number, subject in enumerate(chosen):
        left_s = end_s - monotonic()
        share_s = left_s * subject.weight / weight_left
        limit_s = (left_s + share_s) / 2
        weight_left -= subject.weight
        if (row := absent(subject)) is not None:
            yield row
        elif share_s < _LEAST_S:
            yield Row(subject.label, f"left out: {share_s:.0f} s were left for it", "", None)
        else:
            task = Task(
                label=subject.label,
                engine=subject.engine,
                seconds=limit_s - _ENDING_S,
                measuring_s=_MEASURING * share_s,
                folder=str(folder / str(number)),
                recording=str(recording),
                device=None if device is None else device.partition(":")[0],
                tiny=subject.tiny,
                path=subject.path,
                settings=dict(subject.settings),
            )
            yield from _measured(task, limit_s, environment)


def absent(subject: Subject) -> Row | None:
    """A line about an engine that can't be measured here."""
    try:
        command = registry.missing(registry.describe(subject.engine))
    except (registry.UnknownEngine, EngineUnavailable) as error:
        return Row(subject.label, f"failed: {error}", "", reached=False)
    return None if command is None else Row(subject.label, f"not installed: {command}", "", None)


def _measured(task: Task, seconds: float, environment: Mapping[str, str]) -> Iterator[Row]:
    command = [sys.executable, "-m", "bench.gpu_engine", json.dumps(asdict(task))]
    folder = Path(task.folder)
    folder.mkdir(parents=True)
    with (
        (folder / "log").open("w+b") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, cwd=ROOT, env=environment) as child,
    ):
        end = ""
        try:
            output, _ = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            child.kill()
            output, _ = child.communicate()
            end = f"left out: its {seconds:.0f} s were over"
        rows = [Row(**json.loads(line)) for line in output.decode().splitlines()]
        yield from rows
        if not end and child.returncode and all(row.reached is not False for row in rows):
            end = f"failed: the process ended with {child.returncode}: {_last_line(log.name)}"
    missing = [name for name in FIGURES if f"{task.label}: {name}" not in {row.figure for row in rows}]
    if end and missing:
        yield Row(f"{task.label}: {', '.join(missing)}", end, "", None if end.startswith("left") else False)


def _last_line(file: str) -> str:
    lines = Path(file).read_text("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def shown(device: str | None) -> dict[str, str]:
    """An environment: of several cards a process is shown one, which is the first to it. Raises ValueError."""
    kind, colon, number = (device or "cpu").partition(":")
    if kind not in {"cpu", "cuda", "mps"} or (colon and (kind != "cuda" or not number.isdecimal())):
        raise ValueError(f"{device!r} isn't cuda, cuda:1, mps or cpu")
    if not colon:
        return dict(os.environ)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    cards = visible.split(",") if visible else []
    if cards and int(number) >= len(cards):
        raise ValueError(f"{device} isn't there: CUDA_VISIBLE_DEVICES is {visible!r}")
    return {**os.environ, "CUDA_VISIBLE_DEVICES": cards[int(number)] if cards else number}


def record(file: Path) -> Path:
    """Somebody who speaks, for engines that only clone."""
    bare = Bare()
    soundfile.write(file, bare.samples(_SAID), bare.rate_hz)
    bare.unload()
    return file


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description=__doc__)
    parser.add_argument("--device", help="cuda, cuda:1, mps or cpu (default: CUDA if PyTorch sees it)")
    parser.add_argument(
        "--engines", default=_ENGINES, help="names with commas between (default: %(default)s)"
    )
    parser.add_argument(
        "--weights",
        nargs="*",
        action="extend",
        default=[],
        metavar="ENGINE=PATH",
        help="real ones; instead of a path also the engine's settings as JSON",
    )
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="for all (default: %(default).0f)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there, too")
    options = parser.parse_args(argv)
    names = [name for name in options.engines.split(",") if name]
    try:
        chosen = subjects(names, _weights(names, options.weights))
        shown(options.device)
    except ValueError as error:
        parser.error(str(error))
    begin_s = monotonic()
    rows = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for row in run(
            chosen,
            device=options.device,
            seconds=options.seconds,
            recording=record(folder / "recorded.wav"),
            folder=folder,
        ):
            print(row.line(), file=sys.stderr, flush=True)
            rows.append(row)
    print(table(rows), end="")
    if options.json is not None:
        took_s = monotonic() - begin_s
        options.json.write_text(document(rows, seconds=options.seconds, took_s=took_s), "utf-8")
    return 0 if all(row.reached is not False for row in rows) else 1


def _weights(names: Sequence[str], given: Sequence[str]) -> dict[str, str]:
    """Raises ValueError."""
    weights = {name: value for name in names if (value := os.environ.get(f"BENCH_WEIGHTS_{name.upper()}"))}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not value or name not in names:
            raise ValueError(f"{each!r} isn't an engine of these and its weights: {', '.join(names)}")
        weights[name] = value
    return weights


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
