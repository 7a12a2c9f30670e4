import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.project import ROOT
from tests.serving import serving

README = (ROOT / "README.md").read_text()


def python_examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_it_opens_with_the_page_and_what_it_does_in_two_sentences() -> None:
    _title, picture, first = README.split("\n\n")[:3]
    assert picture.startswith("![")
    assert len(re.findall(r"[.!?](?:\s|$)", first)) == 2


@pytest.mark.real_voice
def test_the_python_example_speaks() -> None:
    (example,) = python_examples()
    with serving() as server:
        code = example.replace("ws://127.0.0.1:8765", server.ws_url)
        assert code != example
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    frames = [line.split() for line in done.stdout.splitlines()]
    assert len(frames) > 5
    assert frames[0][0] == "0"
    assert all(int(size) > 0 for _, size in frames)


@pytest.mark.real_voice
def test_text_piped_into_say_becomes_a_wave_file(tmp_path: Path) -> None:
    target = tmp_path / "answer.wav"
    with serving() as server:
        done = subprocess.run(
            [sys.executable, "-m", "saystream", "say", "-", "-o", str(target), "--url", server.ws_url],
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            input="Hello. It speaks while you write.",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert target.read_bytes()[:4] == b"RIFF"
    assert target.stat().st_size > 24000 * 2
