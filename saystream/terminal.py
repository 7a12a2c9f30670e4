"""What a server says, made fit for a terminal."""


def plain(text: str) -> str:
    """No control characters but line ends: a terminal would obey them."""
    return "".join(one if one.isprintable() or one == "\n" else "\ufffd" for one in text)
