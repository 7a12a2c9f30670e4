"""What needs no browser: node's own test runner, over copies that it takes for modules in every version."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.web_demo.packages import NODE_TESTS, installed

STATIC = Path(__file__).resolve().parents[2] / "web_demo" / "static"


@pytest.mark.parametrize("name", sorted(path.name for path in NODE_TESTS.glob("*.test.mjs")))
def test_node_finds_no_fault_in(name: str, tmp_path: Path) -> None:
    shutil.copytree(STATIC, tmp_path / "web_demo" / "static")
    tests = tmp_path / "tests" / "web_demo" / "node"
    tests.mkdir(parents=True)
    shutil.copy(NODE_TESTS / name, tests)
    (tmp_path / "package.json").write_text(json.dumps({"type": "module"}))
    ran = subprocess.run(
        ["node", "--test", str(tests)], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_types_of_the_client_fit_how_it_is_used(tmp_path: Path) -> None:
    compiler = installed() / "typescript" / "bin" / "tsc"
    shutil.copy(STATIC / "client.d.ts", tmp_path)
    (tmp_path / "use.ts").write_text(
        """
        import { CountedText, SpeechClient, type Heard, type Result } from "./client.js";
        const client = new SpeechClient({ url: "https://speech.test/", token: async () => "t" });
        client.addEventListener("state", ({ detail }) => console.log(detail.state.length, detail.error?.code));
        export async function use(tokens: AsyncIterable<string>): Promise<number> {
          await client.unlock();
          const first = client.speak({ voice: "heart", speed: 1.2, words: true, wait_ms: 600, pan: -0.5 });
          first.addEventListener("segment", ({ detail }) => console.log(detail.start, detail.atMs));
          const result: Result = await first.pipe(tokens);
          const second = client.speak({ replaces: first });
          second.feed("No.").end();
          const heard: Heard = await second.stop();
          // @ts-expect-error there is no such option
          client.speak({ loudness: 3 });
          return heard.end + (result.stats?.audio_ms ?? 0) + new CountedText().toUtf16(0);
        }
        """
    )
    command = ["node", str(compiler), "--noEmit", "--strict", "--target", "es2022", "--module", "nodenext"]
    (tmp_path / "package.json").write_text('{"type": "module"}')
    ran = subprocess.run(
        [*command, "--lib", "es2022,dom,dom.iterable", "use.ts"],
        cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout
