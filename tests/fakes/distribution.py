"""A distribution that brings an engine, as a person would have installed it."""

from pathlib import Path


def install(folder: Path, name: str, target: str) -> None:
    """`folder` has to be on the path of whoever is to find it; `target` is `module:name`."""
    described = folder / f"{name}-1.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (described / "entry_points.txt").write_text(f"[saystream.engines]\n{name} = {target}\n")
