from ws_server.text import SegmentRules, TextPath, TextSegment


def path(*, language: str = "en", plain: bool = False, rules: SegmentRules | None = None) -> TextPath:
    return TextPath(rules or SegmentRules(), markup="plain" if plain else "markdown", language=language)


def segments(
    *increments: str, language: str = "en", plain: bool = False, rules: SegmentRules | None = None
) -> list[TextSegment]:
    """What an utterance of these increments, then `end`, is cut into."""
    open_path = path(language=language, plain=plain, rules=rules)
    made = [segment for increment in increments for segment in open_path.feed(increment)]
    return made + open_path.end()


def spoken(*increments: str, language: str = "en", plain: bool = False) -> list[str]:
    return [segment.speakable for segment in segments(*increments, language=language, plain=plain)]
