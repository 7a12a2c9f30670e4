from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement

from tests.project.project import SETTINGS


def needed(requirements: list[str]) -> dict[str, str]:
    """Every distribution that a plain install brings, with what it says of its licence."""
    found: dict[str, str] = {}
    waiting = [(Requirement(text), "") for text in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        try:
            facts = distribution(requirement.name)
        except PackageNotFoundError:
            continue
        name = facts.metadata["Name"].lower()
        known = name in found
        classified = [
            line for line in facts.metadata.get_all("Classifier") or [] if line.startswith("License")
        ]
        said = [
            facts.metadata["License-Expression"],
            *classified,
            *(facts.metadata["License"] or "").split("\n"),
        ]
        found[name] = next((text for text in said if text), "")
        for extra_of_it in ["", *requirement.extras]:
            if not known or extra_of_it:
                waiting += [(Requirement(text), extra_of_it) for text in facts.requires or []]
    return found


def copyleft(licence: str) -> bool:
    """GPL and AGPL bind the whole program; the LGPL of a library that is linked at run time doesn't."""
    words = licence.upper().replace("LGPL", "").replace("LESSER GENERAL PUBLIC", "")
    return "GPL" in words or "GENERAL PUBLIC" in words


def test_a_plain_install_brings_no_package_under_a_licence_that_binds_the_whole() -> None:
    licences = needed(SETTINGS["project"]["dependencies"])
    assert {"hibari-tts", "starlette", "msgpack"} <= set(licences)
    assert not {name: licence for name, licence in licences.items() if copyleft(licence)}


def test_every_package_of_a_plain_install_says_what_its_licence_is() -> None:
    licences = needed(SETTINGS["project"]["dependencies"])
    assert not [name for name, licence in licences.items() if not licence]
