"""The files for operators name only what exists: flags, settings, metrics, alerts that are explained."""

import configparser
import json
import plistlib
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.project.project import ROOT
from ws_server.app import create_app
from ws_server.settings import Settings, load

DEPLOY = ROOT / "deploy"
OPERATING = ROOT / "docs" / "operating.md"
STOP_S = Settings.model_fields["drain_s"].default


@pytest.fixture(scope="module")
def metric_names() -> set[str]:
    app = create_app(Settings(engine="tone", page=False, cache=False), probe=False)
    names = set()
    for family in text_string_to_metric_families(app.services.metrics.text().decode()):
        match family.type:
            case "counter":
                names.add(f"{family.name}_total")
            case "histogram":
                names |= {f"{family.name}_bucket", f"{family.name}_count", f"{family.name}_sum"}
            case _:
                names.add(family.name)
    return names


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    assert parser.read(DEPLOY / name)
    return parser


def test_s6_the_systemd_unit_restarts_with_a_bound_and_waits_for_the_drain() -> None:
    service = unit("saystream.service")
    assert service["Service"]["Restart"] == "on-failure"
    assert service["Service"]["RestartPreventExitStatus"] == "78"
    assert int(service["Unit"]["StartLimitBurst"]) <= 10
    assert int(service["Unit"]["StartLimitIntervalSec"]) >= 60
    assert int(service["Service"]["TimeoutStopSec"]) > STOP_S + 5
    assert int(service["Service"]["LimitNOFILE"]) > 2 * Settings.model_fields["max_connections"].default
    assert service["Service"]["ExecReload"] == "/bin/kill -HUP $MAINPID"


def test_the_watch_asks_livez_and_restarts() -> None:
    assert re.search(
        r"/livez.*try-restart saystream\.service", unit("saystream-watch.service")["Service"]["ExecStart"]
    )
    assert "OnUnitInactiveSec" in unit("saystream-watch.timer")["Timer"]


def test_the_launchd_job_restarts_with_a_bound_and_waits_for_the_drain() -> None:
    job = plistlib.loads((DEPLOY / "saystream.plist").read_bytes())
    assert job["KeepAlive"] == {"SuccessfulExit": False}
    assert job["ThrottleInterval"] >= 60
    assert job["ExitTimeOut"] > STOP_S + 5
    assert job["ProgramArguments"][1:3] == ["serve", "--config"]


def test_the_settings_file_for_operators_is_valid() -> None:
    settings = load(["--config", str(DEPLOY / "saystream.toml")])
    assert settings.keys_file == Path("/etc/saystream/keys")


@pytest.mark.parametrize("name", ["saystream.service", "Dockerfile"])
def test_each_variable_that_is_set_is_a_setting(name: str) -> None:
    variables = re.findall(r"SAYSTREAM_([A-Z_]+)=", (DEPLOY / name).read_text())
    assert variables
    assert {variable.lower() for variable in variables} <= set(Settings.model_fields)


def test_the_container_runs_the_server_as_its_first_process_and_not_as_root() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    assert 'ENTRYPOINT ["/opt/saystream/bin/saystream", "serve"]' in text
    last_user = re.findall(r"^USER (\S+)", text, re.MULTILINE)[-1]
    assert last_user not in {"root", "0"}


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def used(expr: str) -> set[str]:
    return set(re.findall(r"\bsaystream_[a-z_]+\b", expr))


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_each_alert_looks_at_metrics_that_exist_and_is_explained(
    rule: dict[str, Any], metric_names: set[str]
) -> None:
    assert used(rule["expr"]) <= metric_names
    assert rule["annotations"]["summary"]
    assert re.search(rf"^\| `{rule['alert']}` \| [^|]+ \| [^|]+ \|$", OPERATING.read_text(), re.MULTILINE)


def test_each_alert_that_is_explained_exists() -> None:
    explained = re.findall(r"^\| `(Saystream\w+)` \|", OPERATING.read_text(), re.MULTILINE)
    assert sorted(explained) == sorted(rule["alert"] for rule in rules())


def test_the_dashboard_shows_metrics_that_exist_and_says_what_each_panel_means(
    metric_names: set[str],
) -> None:
    board = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for panel in board["panels"]:
        assert panel["description"], panel["title"]
        for target in panel["targets"]:
            names = used(target["expr"])
            assert names, panel["title"]
            assert names <= metric_names, panel["title"]


def test_each_file_for_operators_is_in_the_page() -> None:
    page = OPERATING.read_text()
    for file in DEPLOY.iterdir():
        assert f"`{file.name}`" in page
