"""What a hosted engine's library has started ends with it, whichever way it ends."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
_SERVER = """
from engines.contract import Source
from engines.hosted import HostedEngine
from tests.fakes.with_a_worker import engine
model = HostedEngine(engine, 'tests.fakes.with_a_worker:engine').load(Source(), 'cpu')
print(model.pid, model.peak_bytes(), flush=True)
{then}
"""


@pytest.mark.parametrize("then", ["import time; time.sleep(600)", "model.unload()"])
def test_a_process_that_the_library_has_started_is_no_orphan(
    then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    command = [sys.executable, "-c", _SERVER.format(then=then)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as server:
        assert server.stdout is not None
        child, worker = (psutil.Process(int(pid)) for pid in server.stdout.readline().split())
        if "sleep" in then:
            server.kill()
        gone, alive = psutil.wait_procs([child, worker], timeout=20)
    assert not alive
    assert len(gone) == 2
