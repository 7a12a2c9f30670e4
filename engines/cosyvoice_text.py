"""What each generation of CosyVoice wants to be given: marks around prompts, and a text in pieces."""

import re

from engines.cosyvoice_settings import Generation

END_OF_PROMPT = "<|endofprompt|>"
_THIRD_BEGINS = "You are a helpful assistant."
_SENTENCE = re.compile(r".*?(?:[.!?。！？…]+[\"'”’»)\]）」』]*(?=\s|$)|[。！？]+[”’」』）]*|$)\s*", re.DOTALL)
_WHITE = re.compile(r"\s+")


def spoken(text: str) -> str:
    """On one line, without the network's own marks; empty: there is nothing to say."""
    plain = "".join(one if one.isprintable() else " " for one in text).replace("<|", "< |")
    plain = _WHITE.sub(" ", plain).strip()
    return plain if any(one.isalnum() for one in plain) else ""


def chunks(text: str, sentences: int) -> "list[str]":
    """Of so many sentences each; 0: all in one."""
    if not sentences:
        return [text] if text else []
    found = [piece.strip() for piece in _SENTENCE.findall(text) if piece.strip()]
    return [" ".join(found[at : at + sentences]) for at in range(0, len(found), sentences)]


def prompt_text(generation: Generation, transcript: str) -> str:
    """Before the text, where the speech goes on from a recording."""
    return f"{_THIRD_BEGINS}{END_OF_PROMPT}{transcript}" if generation == 3 else transcript


def cross_lingual_text(generation: Generation, text: str, language: str) -> str:
    """The text, where a recording gives the voice alone."""
    if generation == 3:
        return f"{_THIRD_BEGINS}{END_OF_PROMPT}{text}"
    return f"<|{language}|>{text}" if generation == 1 else text


def instruct_text(generation: Generation, instruct: str) -> str:
    instruct = instruct.strip()
    if generation == 3:
        return f"{_THIRD_BEGINS} {instruct}{END_OF_PROMPT}"
    return f"{instruct}{END_OF_PROMPT}"
