"""Files from the hub: the real client, against a hub of our own on this machine."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines import downloads, hub
from engines.contract import EngineUnavailable
from engines.downloads import Download
from tests.fakes.hub import COMMIT, NEXT_COMMIT, REPO, TAG, Hub, hub_here

WHY = "no extra that uses the hub is installed here; make test-engines has them"
constants = pytest.importorskip("huggingface_hub.constants", reason=WHY)

ROOT = Path(__file__).parents[2]


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    with hub_here() as here:
        yield here


def fetch(files: Hub, name: str, revision: str = TAG, *, repo: str = REPO) -> Path:
    return hub.fetch(repo, name, revision, engine="fake", endpoint=files.url)


@pytest.mark.parametrize("large", [True, False])
def test_a_file_is_fetched_once(files: Hub, large: bool) -> None:
    files.content["a/b.onnx"] = b"network" * 1000
    if large:
        files.large.add("a/b.onnx")
    assert hub.cached(REPO, "a/b.onnx", TAG) is None
    for _ in range(2):
        path = fetch(files, "a/b.onnx")
        assert path.read_bytes() == files.content["a/b.onnx"]
    assert files.asked.count("GET a/b.onnx") == 1
    assert hub.cached(REPO, "a/b.onnx", TAG) == path


@pytest.mark.parametrize("large", [True, False])
def test_a_file_that_arrives_damaged_is_refused_and_not_kept(files: Hub, large: bool) -> None:
    files.content["b.onnx"] = b"network" * 1000
    files.damaged.add("b.onnx")
    if large:
        files.large.add("b.onnx")
    with pytest.raises(EngineUnavailable, match="is damaged"):
        fetch(files, "b.onnx")
    assert hub.cached(REPO, "b.onnx", TAG) is None
    files.damaged.clear()
    assert fetch(files, "b.onnx").read_bytes() == files.content["b.onnx"]


def test_a_file_that_is_not_there_is_named(files: Hub) -> None:
    with pytest.raises(EngineUnavailable, match=r"someone/voices/none\.onnx couldn't be fetched"):
        fetch(files, "none.onnx")


def test_progress_is_lines_in_the_log(files: Hub, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="engines.hub")
    files.content["c.onnx"] = b"n" * 2_500_000
    fetch(files, "c.onnx")
    lines = [record.getMessage() for record in caplog.records if record.name == "engines.hub"]
    assert lines == [
        "fetching someone/voices/c.onnx: 2 of 2 MB",
        f"someone/voices/c.onnx is here, of revision v1 at commit {COMMIT}",
    ]


def test_progress_is_told_while_it_lasts_and_forgotten_afterwards(files: Hub) -> None:
    files.content["c.onnx"] = b"n" * 2_500_000
    news: list[Download] = []
    with downloads.watched(news.append):
        fetch(files, "c.onnx")
    here = Download(engine="fake", file="someone/voices/c.onnx", done_bytes=2_500_000, total_bytes=2_500_000)
    assert news[0] == Download(engine="fake", file="someone/voices/c.onnx")
    assert news[-2] == here
    assert news[-1].over
    assert downloads.of("fake") == []


def test_a_branch_stays_what_it_was_when_it_was_first_fetched(files: Hub) -> None:
    files.content |= {"a.onnx": b"first", "b.onnx": b"first"}
    files.revisions["main"] = COMMIT
    assert hub.commit_of(REPO, "main") == "main"
    fetch(files, "a.onnx", "main")
    files.revisions |= {"main": NEXT_COMMIT, NEXT_COMMIT: NEXT_COMMIT}
    assert hub.commit_of(REPO, "main") == COMMIT
    assert COMMIT in fetch(files, "b.onnx", "main").parts
    assert hub.commit_of(REPO, NEXT_COMMIT) == NEXT_COMMIT


def test_what_was_damaged_on_this_disk_is_found_out_removed_and_fetched_again(files: Hub) -> None:
    files.content["b.onnx"] = b"network" * 1000
    files.large.add("b.onnx")
    fetch(files, "b.onnx").resolve().write_bytes(b"network" * 999)
    with pytest.raises(EngineUnavailable, match=r"b\.onnx is damaged and was removed"):
        fetch(files, "b.onnx")
    assert fetch(files, "b.onnx").read_bytes() == files.content["b.onnx"]


@pytest.mark.parametrize("large", [True, False])
def test_a_file_that_hasnt_changed_is_read_through_once(files: Hub, large: bool) -> None:
    files.content["c.onnx"] = b"network" * 1000
    if large:
        files.large.add("c.onnx")
    file = fetch(files, "c.onnx").resolve()
    state = file.stat()
    file.write_bytes(b"NETWORK" * 1000)
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    fetch(files, "c.onnx")
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    with pytest.raises(EngineUnavailable, match="is damaged"):
        fetch(files, "c.onnx")


@pytest.mark.parametrize(
    ("name", "revision", "repo", "told"),
    [
        ("a.onnx", "v9", REPO, "it has no revision 'v9'"),
        ("none.onnx", TAG, REPO, "there is no such file in revision 'v1'"),
        ("a.onnx", TAG, "nobody/nothing", "there is no such repository"),
    ],
)
def test_what_the_hub_does_not_have_is_named(
    files: Hub, name: str, revision: str, repo: str, told: str
) -> None:
    files.content["a.onnx"] = b"network"
    with pytest.raises(EngineUnavailable, match=rf"{repo}/{name} couldn't be fetched from the hub: {told}"):
        fetch(files, name, revision, repo=repo)


def test_what_has_to_be_asked_for_says_how(files: Hub) -> None:
    files.content["a.onnx"] = b"network"
    files.gated = True
    with pytest.raises(EngineUnavailable, match="its terms have to be accepted there first"):
        fetch(files, "a.onnx")


def test_a_hub_that_is_not_there_is_told(files: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: None)
    with pytest.raises(EngineUnavailable, match="the hub can't be reached"):
        hub.fetch(REPO, "a.onnx", TAG, engine="fake", endpoint="http://127.0.0.1:9")


def test_offline_nobody_is_asked_and_what_is_there_is_used(
    files: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.content |= {"a.onnx": b"network", "b.onnx": b"network"}
    known = fetch(files, "a.onnx")
    files.asked.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert fetch(files, "a.onnx") == known
    with pytest.raises(EngineUnavailable, match="the hub isn't to be asked"):
        fetch(files, "b.onnx")
    assert files.asked == []


def test_a_hub_that_hangs_up_in_the_middle_leaves_nothing(
    files: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda _: None)
    files.content["a.onnx"] = b"network" * 1000
    files.cut = True
    with pytest.raises(EngineUnavailable, match=r"a\.onnx couldn't be fetched from the hub: "):
        fetch(files, "a.onnx")
    assert hub.cached(REPO, "a.onnx", TAG) is None
    files.cut = False
    assert fetch(files, "a.onnx").read_bytes() == files.content["a.onnx"]


FETCH = """
import sys
from engines import downloads, hub
with downloads.watched(lambda news: print(news.done_bytes, flush=True)):
    hub.fetch(*sys.argv[1:4], engine="fake", endpoint=sys.argv[4])
"""


def test_a_process_that_is_killed_while_it_fetches_leaves_nothing_half_used(
    files: Hub, tmp_path: Path
) -> None:
    files.content["a.onnx"] = b"network" * 4_000_000
    files.gate.clear()
    environment = os.environ | {"HF_HUB_CACHE": constants.HF_HUB_CACHE, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", FETCH, REPO, "a.onnx", TAG, files.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        while int(process.stdout.readline()) == 0:
            pass
        process.send_signal(signal.SIGKILL)
    files.gate.set()
    assert hub.cached(REPO, "a.onnx", TAG) is None
    assert fetch(files, "a.onnx").read_bytes() == files.content["a.onnx"]


def test_a_file_system_that_is_full_is_named(files: Hub, tmp_path: Path) -> None:
    """A real one, of 4 MB, that only a process of its own sees."""
    files.content["a.onnx"] = b"network" * 1_000_000
    cache = tmp_path / "small"
    cache.mkdir()
    mount = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    inside = f'mount -t tmpfs -o size=4m none {cache} && exec "$@"'
    if subprocess.run([*mount, inside, "sh", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    program = FETCH.replace("hub.fetch", "from engines.contract import *\n    try: hub.fetch") + (
        "    except EngineUnavailable as error: print(error)\n"
    )
    done = subprocess.run(
        [*mount, inside, "sh", sys.executable, "-c", program, REPO, "a.onnx", TAG, files.url],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"HF_HUB_CACHE": str(cache), "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.splitlines()[-1] == (
        "someone/voices/a.onnx couldn't be fetched from the hub: No space left on device"
    )
