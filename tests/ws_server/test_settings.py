import re
from pathlib import Path

import pytest

from protocol.limits import Limits
from ws_server.settings import BadSettings, Settings, load

DOC = Path(__file__).parents[2] / "docs" / "settings.md"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"SAYSTREAM_{name.upper()}", raising=False)


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "saystream.toml"
    path.write_text(text)
    return str(path)


def test_without_anything_it_listens_on_this_machine_alone_with_the_default_engine() -> None:
    settings = load([])
    assert (settings.host, settings.port, settings.engine) == ("127.0.0.1", 8765, "hibari")
    assert settings.limits == Limits()


def test_a_flag_beats_the_environment_which_beats_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, 'port = 1\nqueue = 2\nreplica = "file"\n')
    monkeypatch.setenv("SAYSTREAM_QUEUE", "3")
    monkeypatch.setenv("SAYSTREAM_REPLICA", "environment")
    settings = load(["--config", path, "--replica", "flag"])
    assert (settings.port, settings.queue, settings.replica) == (1, 3, "flag")


def test_the_file_can_be_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAYSTREAM_CONFIG", write(tmp_path, "port = 9\n"))
    assert load([]).port == 9


def test_an_engine_has_a_table_of_its_own_settings(tmp_path: Path) -> None:
    settings = load(["--config", write(tmp_path, "[engines.tone]\ncost = 0.1\nfaults = true\n")])
    assert settings.engines == {"tone": {"cost": 0.1, "faults": True}}


def test_an_engine_can_be_set_by_a_flag() -> None:
    assert load(["--engines", '{"tone": {"cost": 0.5}}']).engines == {"tone": {"cost": 0.5}}


def test_an_unknown_key_in_the_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=r"prot: there is no such setting"):
        load(["--config", write(tmp_path, "prot = 9001\n")])


def test_a_wrong_value_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=r"^port: "):
        load(["--config", write(tmp_path, "port = 70000\n")])


def test_a_file_that_is_not_toml_or_is_missing_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=r"saystream\.toml: not valid TOML"):
        load(["--config", write(tmp_path, "port = = 1")])
    with pytest.raises(BadSettings, match="there is no such file"):
        load(["--config", str(tmp_path / "absent.toml")])


def test_an_unknown_flag_ends_with_the_code_of_a_usage_error() -> None:
    with pytest.raises(SystemExit) as ended:
        load(["--prot", "1"])
    assert ended.value.code == 2


def test_switches_are_flags_without_a_value() -> None:
    settings = load(["--allow-open", "--no-page", "--refuse-when-full"])
    assert (settings.allow_open, settings.page, settings.refuse_when_full) == (True, False, True)


def test_lists_are_separated_by_commas_or_given_several_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAYSTREAM_HOSTS", "a.example, b.example")
    settings = load(["--origins", "https://a.example", "--origins", "https://b.example,https://c.example"])
    assert settings.hosts == ("a.example", "b.example")
    assert settings.origins == ("https://a.example", "https://b.example", "https://c.example")


def test_a_secret_is_never_shown_by_the_settings_or_by_an_error(tmp_path: Path) -> None:
    secret = "0123456789abcdef-" + "x" * 8
    assert secret not in repr(load(["--keys", f"web:speak:{secret}"]))
    with pytest.raises(BadSettings) as caught:
        load(["--config", write(tmp_path, f'keys = ["web:speak:{secret}", 5]\nport = "x"\n')])
    assert secret not in str(caught.value)


def test_a_certificate_without_its_key_is_refused() -> None:
    with pytest.raises(BadSettings, match="tls_cert and tls_key"):
        load(["--tls-cert", "cert.pem"])


@pytest.mark.parametrize("name", Limits.__dataclass_fields__)
def test_every_limit_of_the_protocol_is_a_setting_with_the_same_default(name: str) -> None:
    assert getattr(load([]), name) == getattr(Limits(), name)


def test_every_limit_set_reaches_the_limits() -> None:
    assert load(["--idle-s", "7", "--queue", "0"]).limits == Limits(idle_s=7, queue=0)


def test_the_page_of_settings_names_each_with_its_flag_variable_and_default() -> None:
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| (.+) \|$", DOC.read_text(), re.MULTILINE))
    assert set(rows) == set(Settings.model_fields)
    for name, field in Settings.model_fields.items():
        if field.default_factory is None and field.default not in (None, (), ""):
            shown = str(field.default).lower() if isinstance(field.default, bool) else str(field.default)
            assert f"`{shown.removesuffix('.0')}`" in rows[name], name


def test_the_example_file_in_the_page_of_settings_is_valid(tmp_path: Path) -> None:
    example = re.search(r"```toml\n(.+?)```", DOC.read_text(), re.DOTALL)
    assert example is not None
    assert load(["--config", write(tmp_path, example.group(1))]).engine == "hibari"
