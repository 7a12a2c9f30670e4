"""Pocket TTS behind the server: an uploaded clip speaks, and after a restart nothing is computed again."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest
import soundfile

WHY = "the extra pocket isn't installed here; make test-engines has it"
pytest.importorskip("torch", reason=WHY)
pytest.importorskip("pocket_tts", reason=WHY)

from tests.engines.tiny_pocket import make_checkpoint  # noqa: E402 - after what it may be skipped for
from tests.serving import serving  # noqa: E402

RATE_HZ = 24000


def write_recording(path: Path, number: int) -> Path:
    """Two seconds that the preflight takes for speech: bursts of noise with pauses."""
    draw = np.random.default_rng(number)
    bursts = np.repeat([1.0, 0.0], RATE_HZ // 4)
    noise = draw.standard_normal(RATE_HZ * 4).astype(np.float32) * 0.1
    soundfile.write(path, noise * np.tile(bursts, 8)[: noise.size], RATE_HZ)
    return path


@contextmanager
def served(folder: Path) -> Iterator[httpx.Client]:
    with (
        serving("--config", str(folder / "saystream.toml")) as server,
        httpx.Client(base_url=server.url, timeout=60) as client,
    ):
        yield client


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    checkpoint = make_checkpoint(tmp_path / "tiny")
    anna = write_recording(tmp_path / "anna.wav", 1)
    (tmp_path / "saystream.toml").write_text(
        f'engine = "pocket"\nvoices_dir = "{tmp_path / "voices"}"\n\n'
        f'[engines.pocket]\npath = "{checkpoint}"\nvoices = {{ anna = "{anna}" }}\n',
        "utf-8",
    )
    return tmp_path


def speak(client: httpx.Client, voice: str) -> bytes:
    answer = client.post("/v1/tts/stream", json={"text": "Stop it now.", "voice": voice, "seed": 3})
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-engine"] == "pocket"
    return answer.content


def prompts(folder: Path) -> dict[Path, int]:
    """Each with when it was written."""
    files = [path for path in (folder / "voices").rglob("*") if path.is_file()]
    return {path: path.stat().st_mtime_ns for path in files if b"saystream prompt" in path.read_bytes()[:32]}


def test_an_uploaded_clip_speaks_and_its_prompt_outlives_a_restart(folder: Path) -> None:
    clip = write_recording(folder / "clip.wav", 2)
    with served(folder) as client:
        own = speak(client, "anna")
        answer = client.post("/v1/voices", files={"audio": clip.read_bytes()}, data={"name": "Clip"})
        assert answer.status_code == 201, answer.text
        voice = answer.json()["voice_id"]
        assert "pocket" in answer.json()["engines"]
        assert prompts(folder) == {}
        cloned = speak(client, voice)
        assert len(cloned) == len(own)
        assert cloned != own
        kept = prompts(folder)
        assert len(kept) == 1
    with served(folder) as client:
        assert speak(client, voice) == cloned
        assert prompts(folder) == kept
