"""Uploaded voices among the engines: who can use them, in which way, and what is refused before anything is made."""

import io
from pathlib import Path
from typing import Any

import pytest

from engines.contract import BuiltinVoice, CloneMode, Facts, Info, Source
from engines.tone import engine as tone_engine
from protocol.limits import Limits
from protocol.messages import Open
from tests.voices.recordings import recording
from voices.library import Library
from voices.making import Upload, make_voice
from voices.objects import Objects
from voices.reading import Bounds
from voices.reference import Clone
from voices.voice import Traits, Voice
from ws_server.auth import Identity
from ws_server.catalogue import Catalogue
from ws_server.entries import Entry
from ws_server.plan import Refusal
from ws_server.tokens import TokenLimits

ANYONE = Identity("web", "speak")


def entry(name: str, *clones: CloneMode, usable: bool = True, synthetic: bool = False) -> Entry:
    info = Info(
        name=name,
        version="1",
        extra=None,
        devices=frozenset({"cpu"}),
        languages={"en-US": "en", "de-DE": "de"},
        voices=(BuiltinVoice(f"{name}-own", name, "en-US"),),
        clones=frozenset(clones),
        synthetic=synthetic,
    )
    facts = Facts(checkpoint=f"{name}-1", sample_rate_hz=24000) if usable else None
    return Entry(
        name=name,
        engine=tone_engine,
        info=info,
        source=Source(),
        installed=usable,
        facts=facts,
        problem=None if usable else "pip install it",
    )


ENTRIES = {
    one.name: one
    for one in (
        entry("plain"),
        entry("ear", "audio"),
        entry("reader", "audio+text"),
        entry("both", "audio", "audio+text"),
        entry("absent", "audio", usable=False),
        entry("test", "audio", synthetic=True),
    )
}


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(Objects(tmp_path))


@pytest.fixture
def catalogue(library: Library) -> Catalogue:
    return Catalogue(ENTRIES, engine="plain", voice=None, limits=Limits(), library=library)


def voice(library: Library, **traits: Any) -> Voice:
    upload = Upload(audio=io.BytesIO(recording()), name="Ann", traits=Traits(**traits))
    return make_voice(library, upload, Bounds(), now_s=0.0).voice


def refused(catalogue: Catalogue, opened: Open, identity: Identity = ANYONE) -> Refusal:
    with pytest.raises(Refusal) as caught:
        catalogue.resolve(opened, identity)
    return caught.value


def test_a_voice_is_listed_with_the_engines_that_can_use_it(library: Library, catalogue: Catalogue) -> None:
    without, with_text = voice(library), voice(library, transcript="one two three")
    engines = {row.voice_id: row.engines for row in catalogue.voices()}
    assert engines[without.voice_id] == ("ear", "both", "test")
    assert engines[with_text.voice_id] == ("ear", "reader", "both", "test")
    assert [row.voice_id for row in catalogue.voices("reader")] == ["reader-own", with_text.voice_id]
    assert [row.voice_id for row in catalogue.voices("plain")] == ["plain-own"]


def test_the_first_engine_that_can_takes_it(library: Library, catalogue: Catalogue) -> None:
    without = voice(library)
    plan = catalogue.resolve(Open(id="a", voice=without.voice_id), ANYONE)
    assert (plan.engine, plan.voice, plan.clone) == (
        "ear",
        without.voice_id,
        Clone(without.voice_id, "audio"),
    )


@pytest.mark.parametrize(
    ("traits", "engine", "mode"),
    [
        ({}, "both", "audio"),
        ({"transcript": "one two three"}, "both", "audio+text"),
        ({"transcript": "one two three", "mode": "audio"}, "both", "audio"),
        ({"transcript": "one two three"}, "reader", "audio+text"),
        ({}, "test", "audio"),
    ],
)
def test_an_engine_that_is_named_takes_it_in_its_way(
    library: Library, catalogue: Catalogue, traits: dict[str, Any], engine: str, mode: CloneMode
) -> None:
    added = voice(library, **traits)
    plan = catalogue.resolve(Open(id="a", voice=added.voice_id, engine=engine), ANYONE)
    assert plan.clone == Clone(added.voice_id, mode)


def test_s12_a_voice_without_a_transcript_is_refused_where_the_mode_needs_one(
    library: Library, catalogue: Catalogue
) -> None:
    without = voice(library)
    refusal = refused(catalogue, Open(id="a", voice=without.voice_id, engine="reader"))
    assert (refusal.code, refusal.param, refusal.value) == ("unknown_voice", "voice", ["ear", "both", "test"])


def test_an_engine_that_clones_nothing_names_those_that_do(library: Library, catalogue: Catalogue) -> None:
    added = voice(library, engine="both")
    refusal = refused(catalogue, Open(id="a", voice=added.voice_id, engine="plain"))
    assert (refusal.code, refusal.value) == ("unknown_voice", ["both"])
    assert "can't speak with the uploaded voice" in str(refusal)


def test_a_voice_that_only_a_synthetic_engine_can_use_waits_for_its_name(library: Library) -> None:
    catalogue = Catalogue(
        {name: ENTRIES[name] for name in ("plain", "test")},
        engine="plain",
        voice=None,
        limits=Limits(),
        library=library,
    )
    added = voice(library)
    assert refused(catalogue, Open(id="a", voice=added.voice_id)).value == ["test"]
    assert catalogue.resolve(Open(id="a", voice=added.voice_id, engine="test"), ANYONE).engine == "test"


@pytest.mark.parametrize(
    ("language", "asked", "plan_language"),
    [("de", None, "de-DE"), ("ja", None, "en-US"), (None, None, "en-US"), ("de", "en", "en-US")],
)
def test_it_speaks_its_own_language_where_the_engine_does(
    library: Library, catalogue: Catalogue, language: str | None, asked: str | None, plan_language: str
) -> None:
    added = voice(library, language=language)
    opened = Open(id="a", voice=added.voice_id, language=asked)
    assert catalogue.resolve(opened, ANYONE).language == plan_language


def test_s17_its_seed_is_its_own_and_stays(library: Library, catalogue: Catalogue) -> None:
    one, other = voice(library), voice(library, transcript="one two three")
    seeds = [
        catalogue.resolve(Open(id="a", voice=one.voice_id, engine="ear"), ANYONE).seed
        for one in (one, other, one)
    ]
    assert seeds[0] == seeds[2] != seeds[1]


def test_a_name_is_no_id_and_a_removed_voice_is_unknown(library: Library, catalogue: Catalogue) -> None:
    added = voice(library)
    assert refused(catalogue, Open(id="a", voice="Ann")).code == "unknown_voice"
    library.remove(added.voice_id)
    refusal = refused(catalogue, Open(id="a", voice=added.voice_id))
    assert (refusal.code, refusal.value) == ("unknown_voice", None)
    assert catalogue.voice(added.voice_id) is None


def test_a_token_can_be_bound_to_an_uploaded_voice(library: Library, catalogue: Catalogue) -> None:
    added = voice(library)
    bound = Identity("page", "speak", TokenLimits(voice=added.voice_id))
    assert catalogue.resolve(Open(id="a"), bound).voice == added.voice_id
    assert refused(catalogue, Open(id="a", voice="ear-own"), bound).value == [added.voice_id]
