import socket
import subprocess
from pathlib import Path

import pytest

from tests.ws_server.running import SPEAK_KEY
from ws_server.check import check


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    subprocess.run([*make.split(), "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


def test_what_would_start_is_said_to_be_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(["--port", "0"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert all(row.startswith("ok") for row in rows)
    assert any("engine: hibari, voice heart" in row for row in rows)


def test_all_that_is_wrong_is_said_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert check(["--port", port, "--engine", "nothing", "--keys", "web:king:0123456789abcdef"]) == 1
    rows = capsys.readouterr().out
    assert "wrong  keys: keys: web: the role is speak or admin" in rows
    assert f"wrong  port: 127.0.0.1:{port} is taken" in rows
    assert "wrong  engine: engine: there is no 'nothing'" in rows


def test_settings_that_cant_be_read_are_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(["--port", "99999"]) == 1
    assert capsys.readouterr().out.startswith("wrong  settings: port: ")


def test_names_and_roles_of_keys_are_shown_and_secrets_never(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(["--port", "0", "--keys", f"web:speak:{SPEAK_KEY}"]) == 0
    out = capsys.readouterr().out
    assert "web (speak)" in out
    assert SPEAK_KEY not in out


def test_a_file_of_keys_that_everyone_can_read_is_pointed_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"web:speak:{SPEAK_KEY}\n")
    for mode, told in ((0o644, True), (0o640, False), (0o600, False)):
        keys.chmod(mode)
        assert check(["--port", "0", "--keys-file", str(keys)]) == 0
        assert ("can be read by everyone" in capsys.readouterr().out) is told


def test_a_certificate_and_its_key_are_well(
    certificate: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    cert, key = certificate
    assert check(["--port", "0", "--tls-cert", cert, "--tls-key", key]) == 0
    assert f"certificate: {cert}" in capsys.readouterr().out


@pytest.mark.parametrize("which", ["missing", "swapped", "nonsense"])
def test_a_certificate_that_cant_be_used_is_wrong(
    which: str, certificate: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cert, key = certificate
    (tmp_path / "nonsense").write_text("nonsense")
    pairs = {
        "missing": (str(tmp_path / "absent"), key),
        "swapped": (key, cert),
        "nonsense": (str(tmp_path / "nonsense"), key),
    }
    cert, key = pairs[which]
    assert check(["--port", "0", "--tls-cert", cert, "--tls-key", key]) == 1
    assert "wrong  certificate: tls_cert, tls_key: " in capsys.readouterr().out
