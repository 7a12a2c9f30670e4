from dataclasses import dataclass
from typing import Any

import pytest

from engines.contract import (
    BuiltinVoice,
    EngineUnavailable,
    Facts,
    Info,
    Model,
    OptionError,
    Source,
)
from protocol.limits import Limits
from protocol.messages import Open
from ws_server.auth import Identity
from ws_server.catalogue import Catalogue
from ws_server.entries import Entry
from ws_server.plan import Refusal
from ws_server.settings import BadSettings, Settings
from ws_server.tokens import TokenLimits

ANYONE = Identity("web", "speak")


@dataclass(frozen=True)
class Options:
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.temperature, float):
            raise TypeError("temperature is a number")
        if self.temperature > 2:
            raise OptionError("temperature", "at most 2")


@dataclass(frozen=True)
class PaperEngine:
    """Says what it is, and can't be loaded."""

    info: Info

    def identify(self, source: Source) -> Facts:
        raise EngineUnavailable(source.path or "nowhere")

    def load(self, source: Source, device: str) -> Model[Any, Any]:
        raise EngineUnavailable("made of paper")


def entry(name: str, *voices: str, usable: bool = True, **more: Any) -> Entry:
    info = Info(
        name=name,
        version="1",
        extra=name,
        devices=frozenset({"cpu"}),
        languages=more.get("languages", {"en-US": "a", "en-GB": "b"}),
        voices=tuple(BuiltinVoice(voice, voice.title(), more.get("speaks", "en-GB")) for voice in voices),
        options=more.get("options"),
    )
    facts = Facts(
        checkpoint=f"{name}-1", sample_rate_hz=24000, speed=(0.5, 2.0), max_chars=99, max_sentences=3
    )
    return Entry(
        name=name,
        engine=PaperEngine(info),
        info=info,
        source=Source(),
        installed=usable,
        facts=facts if usable else None,
        problem=None if usable else "pip install it",
    )


CATALOGUE = Catalogue(
    {
        "first": entry("first", "ann", "bob", options=Options),
        "second": entry("second", "bob", "cho", languages={"zh": "z", "fr-FR": "f"}, speaks="zh"),
        "absent": entry("absent", "dee", usable=False),
    },
    engine="first",
    voice="bob",
    limits=Limits(total_chars=1000, wait_ms=250, stall_ms=900),
)


def refusal(opened: Open, identity: Identity = ANYONE) -> tuple[str, str | None, Any]:
    with pytest.raises(Refusal) as caught:
        CATALOGUE.resolve(opened, identity)
    return caught.value.code, caught.value.param, caught.value.value


def test_an_open_without_wishes_gets_the_defaults() -> None:
    plan = CATALOGUE.resolve(Open(id="a"), ANYONE)
    assert (plan.engine, plan.voice, plan.language) == ("first", "bob", "en-GB")
    assert (plan.format, plan.sample_rate_hz, plan.speed) == ("s16le", 24000, 1.0)
    assert plan.options == Options()
    assert plan.total_chars == 1000
    rules = plan.rules
    assert (rules.wait_ms, rules.stall_ms, rules.max_chars, rules.max_sentences) == (250, 900, 99, 3)


def test_wishes_are_taken() -> None:
    opened = Open(id="a", voice="ann", speed=2.0, format="f32le", sample_rate_hz=48000, wait_ms=10, seed=7)
    plan = CATALOGUE.resolve(opened, ANYONE)
    assert (plan.voice, plan.speed, plan.format, plan.sample_rate_hz) == ("ann", 2.0, "f32le", 48000)
    assert (plan.rules.wait_ms, plan.seed) == (10, 7)


@pytest.mark.parametrize("telephone", ["mulaw", "alaw"])
def test_telephone_formats_have_their_own_rate(telephone: Any) -> None:
    assert CATALOGUE.resolve(Open(id="a", format=telephone), ANYONE).sample_rate_hz == 8000
    assert (
        CATALOGUE.resolve(Open(id="a", format=telephone, sample_rate_hz=16000), ANYONE).sample_rate_hz
        == 16000
    )


def test_the_seed_is_the_same_for_the_same_voice_and_fits_63_bits() -> None:
    seeds = {voice: CATALOGUE.resolve(Open(id="a", voice=voice), ANYONE).seed for voice in ("ann", "bob")}
    assert seeds["ann"] != seeds["bob"]
    assert seeds == {
        voice: CATALOGUE.resolve(Open(id="b", voice=voice), ANYONE).seed for voice in ("ann", "bob")
    }
    assert all(0 <= seed < 2**63 for seed in seeds.values())


def test_a_voice_that_only_another_engine_has_names_that_engine() -> None:
    assert CATALOGUE.resolve(Open(id="a", voice="cho"), ANYONE).engine == "second"
    assert CATALOGUE.resolve(Open(id="a", voice="bob"), ANYONE).engine == "first"


def test_an_engine_without_a_voice_speaks_with_its_first() -> None:
    assert CATALOGUE.resolve(Open(id="a", engine="second"), ANYONE).voice == "bob"
    assert CATALOGUE.resolve(Open(id="a", engine="first"), ANYONE).voice == "bob"


def test_unknown_names_are_refused_with_what_there_is() -> None:
    assert refusal(Open(id="a", engine="third")) == (
        "unknown_engine",
        "engine",
        ["first", "second", "absent"],
    )
    assert refusal(Open(id="a", engine="first", voice="cho")) == ("unknown_voice", "voice", ["second"])
    assert refusal(Open(id="a", voice="zoe")) == ("unknown_voice", "voice", None)
    assert refusal(Open(id="a", voice="dee")) == ("unknown_voice", "voice", None)


def test_an_engine_that_isnt_installed_says_what_to_do() -> None:
    with pytest.raises(Refusal, match="pip install it") as caught:
        CATALOGUE.resolve(Open(id="a", engine="absent"), ANYONE)
    assert caught.value.code == "engine_unavailable"


@pytest.mark.parametrize(
    ("asked", "spoken"),
    [
        ("en", "en-US"),
        ("en-GB", "en-GB"),
        ("EN_us", "en-US"),
        ("en-AU", "en-GB"),
        ("English", "en-US"),
        ("british english", "en-GB"),
    ],
)
def test_a_language_is_known_by_code_tag_or_name(asked: str, spoken: str) -> None:
    assert CATALOGUE.resolve(Open(id="a", language=asked), ANYONE).language == spoken


@pytest.mark.parametrize(
    ("asked", "spoken"), [("zh-CN", "zh"), ("Chinese", "zh"), ("fr", "fr-FR"), ("cmn", "zh")]
)
def test_each_engine_has_its_own_languages(asked: str, spoken: str) -> None:
    assert CATALOGUE.resolve(Open(id="a", engine="second", language=asked), ANYONE).language == spoken


@pytest.mark.parametrize(
    "asked", ["de", "German", "klingon", "xx", "", "  ", "🎉", "\x00", "no such language"]
)
def test_another_language_is_refused_with_those_offered(asked: str) -> None:
    expected = ("unsupported_language", "language", ["en-US", "en-GB"])
    assert refusal(Open(id="a", language=asked)) == expected


@pytest.mark.parametrize("speed", [0.49, 2.01, 9.0])
def test_a_speed_out_of_range_is_refused_with_the_range(speed: float) -> None:
    assert refusal(Open(id="a", speed=speed)) == ("invalid_option", "speed", [0.5, 2.0])


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"temprature": 1.0}, "options.temprature"),
        ({"temperature": 3.0}, "options.temperature"),
        ({"temperature": "hot"}, "options"),
    ],
)
def test_a_wrong_option_is_refused_by_name(options: dict[str, Any], param: str) -> None:
    assert refusal(Open(id="a", options=options))[:2] == ("invalid_option", param)


def test_options_reach_the_engine_as_its_own_type() -> None:
    assert CATALOGUE.resolve(Open(id="a", options={"temperature": 0.5}), ANYONE).options == Options(0.5)


def test_an_engine_without_options_takes_none_and_refuses_some() -> None:
    assert CATALOGUE.resolve(Open(id="a", engine="second", options={}), ANYONE).options is None
    assert refusal(Open(id="a", engine="second", options={"x": 1}))[:2] == ("invalid_option", "options")


def test_a_token_can_hold_its_bearer_to_a_voice_and_a_length() -> None:
    bearer = Identity("web", "speak", TokenLimits(total_chars=50, voice="ann"))
    plan = CATALOGUE.resolve(Open(id="a"), bearer)
    assert (plan.voice, plan.total_chars) == ("ann", 50)
    assert CATALOGUE.resolve(Open(id="a", voice="ann"), bearer).voice == "ann"
    assert refusal(Open(id="a", voice="bob"), bearer) == ("unknown_voice", "voice", ["ann"])
    generous = Identity("web", "speak", TokenLimits(total_chars=5000))
    assert CATALOGUE.resolve(Open(id="a"), generous).total_chars == 1000


def test_voices_are_listed_once_with_all_engines_that_can_be_used() -> None:
    rows = {row.voice_id: row.engines for row in CATALOGUE.voices()}
    assert rows == {"ann": ("first",), "bob": ("first", "second"), "cho": ("second",)}
    assert [row.voice_id for row in CATALOGUE.voices("second")] == ["bob", "cho"]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"engine": "nothing"}, "engine: there is no 'nothing'; there are hibari, "),
        ({"engine": "tone", "voice": "nobody"}, "voice: tone has no 'nobody'"),
        ({"engines": {"tune": {}}}, "engines: there is no engine tune"),
        ({"engines": {"tone": {"cots": 1}}}, "engines.tone.cots: tone has no such setting"),
        ({"engines": {"tone": {"cost": -1}}}, "engines.tone.cost: must be 0 to 100"),
    ],
)
def test_settings_that_name_what_isnt_there_are_refused(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadSettings) as caught:
        Catalogue.read(Settings(**values))
    assert str(caught.value).startswith(reason)
