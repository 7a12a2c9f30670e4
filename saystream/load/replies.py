"""What the listeners of a load have read to them, token by token."""

import re
from collections.abc import Sequence
from pathlib import Path

_TOKEN = re.compile(r"\s*\S{1,5}|\s+$")
"""A language model's tokens hold about four characters and begin with their space."""

REPLIES = (
    "Sure, I can help with that. Could you tell me which of the two orders you mean, the one from Monday or the one "
    "from Thursday? I see both in your account.",
    "The museum opens at ten in the morning and closes at six. On Fridays it stays open until nine, and the last "
    "guided tour starts an hour before.",
    "Yes, it does. You only have to switch the device off, wait for about thirty seconds, and switch it on again. The "
    "light should turn green after that.",
    "There are three trains this evening that would suit you. The first leaves at a quarter past five and you would "
    "have to change once. The other two are direct, but they take a little longer.",
    "I'm sorry to hear that. I have opened a case for you, and a colleague will call you back before noon. Is there "
    "anything else that I should add to my notes?",
    "Tomorrow will be mostly cloudy with some rain in the afternoon. The wind comes from the west, and it won't get "
    "warmer than fourteen degrees. Take an umbrella with you.",
    "You can cook the rice while the vegetables are in the oven. Start with the onions, since they need the longest, "
    "and add the peppers after ten minutes.",
    "Thank you, I've found your booking. You have a double room for two nights, breakfast is included, and you can "
    "check in from three o'clock.",
    "That depends on how you use it. If you mostly write and read, the smaller one is enough. For pictures and films "
    "I would take the one with the better screen.",
    "The short answer is no. The longer answer is that the rule changed last spring, so old contracts are treated "
    "differently from new ones, and yours was signed just before.",
    "Your parcel left the depot this morning at seven. It is on its way to you now, and the driver expects to be there "
    "between two and four in the afternoon.",
    "Let me think about that for a moment. We could move the meeting to Wednesday, when everybody is free, or we keep "
    "the date and send the results to those who can't come.",
)


def read(path: Path) -> tuple[str, ...]:
    """One reply a line, `\\n` for a line break in it. Raises OSError, ValueError."""
    lines = path.read_text(encoding="utf-8").splitlines()
    replies = tuple(line.replace("\\n", "\n") for line in lines if line.strip())
    if not replies:
        raise ValueError(f"{path} holds no replies")
    return replies


def tokens(reply: str) -> Sequence[str]:
    """Joined they are the reply."""
    return _TOKEN.findall(reply)
