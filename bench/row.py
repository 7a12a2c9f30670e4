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


def document(rows: Sequence[Row], **about: str | float) -> str:
    """JSON of them, with what they were measured on."""
    machine = {
        "machine": platform.machine(),
        "python": platform.python_version(),
        "system": platform.system(),
    }
    return json.dumps({**machine, **about, "rows": [asdict(row) for row in rows]}, indent=1) + "\n"


def table(rows: Sequence[Row]) -> str:
    """Markdown of them."""
    lines = ["| figure | measured | reach | |", "|---|---|---|---|"]
    marks = {True: "yes", False: "**no**", None: ""}
    lines += [f"| {row.figure} | {row.measured} | {row.reach} | {marks[row.reached]} |" for row in rows]
    return "\n".join(lines) + "\n"


def write(rows: Sequence[Row]) -> None:
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "bench.json").write_text(document(rows), encoding="utf-8")
    (RESULTS / "bench.md").write_text(table(rows), encoding="utf-8")
