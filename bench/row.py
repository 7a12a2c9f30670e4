"""A line of a report."""

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

RESULTS = Path("results")


@dataclass(frozen=True, slots=True)
class Row:
    figure: str
    measured: str
    reach: str
    reached: bool | None
    """None: a figure without a bound, there to explain another."""
    raw: dict[str, float] = field(default_factory=dict)

    def line(self) -> str:
        mark = {True: "ok", False: "NOT REACHED", None: ""}[self.reached]
        return (
            f"{self.figure}: {self.measured}   (reach {self.reach}) {mark}"
            if self.reach
            else self.line_plain()
        )

    def line_plain(self) -> str:
        return f"{self.figure}: {self.measured}"


def write(rows: Sequence[Row]) -> None:
    RESULTS.mkdir(exist_ok=True)
    machine = {
        "machine": platform.machine(),
        "python": platform.python_version(),
        "system": platform.system(),
    }
    document = {**machine, "rows": [asdict(row) for row in rows]}
    (RESULTS / "bench.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    lines = ["| figure | measured | reach | |", "|---|---|---|---|"]
    marks = {True: "yes", False: "**no**", None: ""}
    lines += [f"| {row.figure} | {row.measured} | {row.reach} | {marks[row.reached]} |" for row in rows]
    (RESULTS / "bench.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
