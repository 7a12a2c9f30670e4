import json
import subprocess
import sys

from tests.project.project import PACKAGES, ROOT

HEAVY = ["torch", "onnxruntime", "hibari", "faster_whisper", "mlx", "scipy", "sounddevice", "ctranslate2"]

IMPORT_ALL = """
import importlib, json, pkgutil, socket, sys, threading

for name in {packages!r}:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, name + "."):
        # An engine's own parts (engines/<engine>_<part>.py) are imported with its library, on demand.
        part_of_an_engine = name == "engines" and "_" in module.name
        if not module.name.endswith("__main__") and not part_of_an_engine:
            importlib.import_module(module.name)
print(json.dumps({{
    "heavy": [name for name in {heavy!r} if name in sys.modules],
    "threads": [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()],
}}))
"""


def test_importing_every_module_loads_no_engine_starts_no_thread_and_says_nothing() -> None:
    code = IMPORT_ALL.format(packages=PACKAGES, heavy=HEAVY)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"heavy": [], "threads": []}
    assert done.stderr == ""


def test_the_client_needs_nothing_of_the_server() -> None:
    code = (
        "import sys; from saystream import Client, SyncClient;"
        "print([name for name in ('ws_server', 'starlette', 'uvicorn', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
