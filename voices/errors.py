"""What can go wrong with voices, named by situation.

VoicesError
├── NotReadable    the file isn't audio that can be read here
├── TooLarge       the file has more bytes than a voice may have
├── Unusable       it can be read, and won't do: too short, silent, no transcript; `param` names the field
├── VoiceMissing   there is no such voice
├── VoiceBroken    its files aren't what was stored
└── StoreFailed    the store can't be read or written
"""


class VoicesError(Exception):
    pass


class NotReadable(VoicesError):  # noqa: N818 - named by situation
    pass


class TooLarge(VoicesError):  # noqa: N818 - named by situation
    pass


class Unusable(VoicesError):  # noqa: N818 - named by situation
    def __init__(self, param: str, message: str) -> None:
        super().__init__(message)
        self.param = param


class VoiceMissing(VoicesError):  # noqa: N818 - named by situation
    def __init__(self, voice_id: str) -> None:
        super().__init__(f"there is no voice {voice_id!r}")


class VoiceBroken(VoicesError):  # noqa: N818 - named by situation
    def __init__(self, voice_id: str, what: str) -> None:
        super().__init__(f"voice {voice_id} is broken: {what}; upload it again")


class StoreFailed(VoicesError):  # noqa: N818 - named by situation
    pass
