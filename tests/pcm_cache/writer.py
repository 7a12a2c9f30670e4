"""Writes entries into a folder until it is killed; run as `python -m tests.pcm_cache.writer FOLDER FIRST`."""

import sys
from pathlib import Path

from pcm_cache.clip import Clip
from pcm_cache.entry import encode
from pcm_cache.files import Folder
from tests.pcm_cache.clips import RATE_HZ, digest, sound

SAMPLES = 500_000
"""Two megabytes: most of the writer's time goes into writing."""


def written(number: int) -> Clip:
    return Clip(sound(SAMPLES + number), (), RATE_HZ)


def main(folder: Path, first: int) -> None:
    entries = [
        (digest(number), encode(digest(number), written(number))) for number in range(first, first + 4)
    ]
    target = Folder(folder)
    target.prepare()
    print("ready", flush=True)
    while True:
        for name, data in entries:
            target.write(name, data)
            target.remove(name)
            target.write(name, data)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
