"""The mobile example, compiled strictly and run under node against the real server."""

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.listening import transcribe, word_error_rate
from tests.serving import Server
from tests.web_demo.packages import NODE_TESTS, installed

pytestmark = pytest.mark.real_voice

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "mobile" / "speech.ts"


@pytest.fixture(scope="module")
def seen(server: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("mobile")
    shutil.copy(EXAMPLE, folder)
    (folder / "package.json").write_text('{"type": "module"}')
    compiler = installed() / "typescript" / "bin" / "tsc"
    flags = ["--strict", "--noUncheckedIndexedAccess", "--target", "es2022", "--module", "nodenext"]
    command = ["node", str(compiler), *flags, "--lib", "es2022,dom", "speech.ts"]
    compiled = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=False)
    assert compiled.returncode == 0, compiled.stdout
    ran = subprocess.run(
        ["node", NODE_TESTS / "mobile.mjs", f"{server.ws_url}/v1/speak", folder / "speech.js"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def test_a_text_in_single_units_is_heard_whole(seen: dict[str, Any]) -> None:
    whole = seen["whole"]
    assert whole["ending"]["reason"] == "complete"
    assert whole["kept"] == whole["text"]
    assert whole["state"] == "finished"
    samples = np.frombuffer(base64.b64decode(whole["pcm"]), "<i2").astype(np.float32) / np.float32(32768)
    expected = "Good morning. The train leaves at nine, from the second platform."
    assert word_error_rate(expected, transcribe(samples, whole["rateHz"])) == 0


def test_an_interruption_says_what_was_heard_and_the_next_is_spoken(seen: dict[str, Any]) -> None:
    found = seen["interrupted"]
    assert found["first"] == "stopped"
    assert found["old"]["reason"] == "replaced"
    heard = found["text"][: found["old"]["heard"]["end"]]
    assert heard.startswith("😀 One moment")
    assert heard.split() == found["text"].split()[: len(heard.split())]
    assert len(heard) < len(found["text"])
    # None: nothing was being said in that moment.
    assert found["word"] is None or found["word"].strip(" ,.") in found["text"]
    assert found["ending"]["reason"] == "complete"
    assert found["second"] > 0


def test_a_stop_says_what_was_heard(seen: dict[str, Any]) -> None:
    found = seen["stopped"]
    assert found["state"] == "stopped"
    assert found["ending"]["reason"] == "cancelled"
    assert found["text"].startswith(found["text"][: found["ending"]["heard"]["end"]])
    assert 0 <= found["ending"]["heard"]["end"] < len(found["text"])


def test_a_stop_after_all_was_sent_says_what_was_heard_of_it(seen: dict[str, Any]) -> None:
    found = seen["stoppedLate"]
    assert found["reason"] == "complete"
    assert found["state"] == "stopped"
    assert found["late"]["reason"] == "cancelled"
    assert 0 < found["late"]["heard"]["end"] < len(found["text"])


def test_a_refusal_is_told_in_words(seen: dict[str, Any]) -> None:
    assert seen["refused"]["reason"] == "failed"
    assert seen["refused"]["message"]
