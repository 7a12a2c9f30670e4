"""The small words of a language that tell where a speaker may take a breath."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Connectors:
    joining: frozenset[str] = frozenset()
    """Before these a breath is natural."""
    leading: frozenset[str] = frozenset()
    """Before these it is acceptable."""
    clinging: frozenset[str] = frozenset()
    """After these nobody breathes."""


def connectors(language: str) -> Connectors:
    """`language`: the primary part of a BCP-47 tag."""
    return _BY_LANGUAGE.get(language, _NONE)


def _list(joining: str, leading: str, clinging: str) -> Connectors:
    return Connectors(frozenset(joining.split()), frozenset(leading.split()), frozenset(clinging.split()))


_NONE = Connectors()
_BY_LANGUAGE: Mapping[str, Connectors] = {
    "en": _list(
        "and but or nor so yet because since although though while whereas unless until if when whenever where which "
        "who whom whose that than",
        "in on at for with from by about after before between during through over under into without to",
        "a an the this that these those my your his her its our their of to in on at for with from by and or but as "
        "is are was were be been am i you he she we they it not no very more most mr mrs ms dr st if when which who "
        "will would can could should must may might do does did have has had "
        "than up out around near such so each every some any all both what how there's it's",
    ),
    "de": _list(
        "und oder aber sondern denn weil dass wenn ob als damit obwohl während",
        "in an auf mit von für nach bei aus durch ohne zu über unter vor",
        "der die das den dem des ein eine einen einem einer eines und oder zu in an auf mit von für im am ich er sie "
        "es wir ihr ist sind war nicht kein keine dr",
    ),
    "fr": _list(
        "et ou mais donc car parce que qui quand lorsque si puisque",
        "à avec pour dans sur sans de en par chez",
        "le la les l' un une des du de d' à et ou en dans sur je tu il elle nous vous ils elles ne est sont très",
    ),
    "es": _list(
        "y e o u pero sino porque que cuando aunque si",
        "a con para por sin en de desde hasta sobre",
        "el la los las un una unos unas de del a al y o en con por no es son muy se",
    ),
    "it": _list(
        "e ed o oppure ma perché che quando se",
        "a con per in da di su senza",
        "il lo la i gli le un uno una di del della da in e o non è sono si",
    ),
    "pt": _list(
        "e ou mas porque que quando se nem",
        "a com para por sem em de sobre",
        "o a os as um uma de do da no na em e ou não é são se",
    ),
    "nl": _list(
        "en of maar want omdat wanneer als dat",
        "in op met voor van naar door zonder bij",
        "de het een van te in op met en of ik je hij zij we is zijn niet",
    ),
}
