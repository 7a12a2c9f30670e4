"""What a listener can be refused or lost for, beside the engines' own errors.

ResidencyError
  Busy            no slot and no queue place, or its wait in the queue is over
  EngineStalled   a step hasn't come back within its deadline
  UnknownUnit     nothing of that name can be loaded
"""


class ResidencyError(Exception):
    pass


class Busy(ResidencyError):  # noqa: N818 - named by situation
    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class EngineStalled(ResidencyError):  # noqa: N818 - named by situation
    def __init__(self, unit: str, waited_s: float) -> None:
        super().__init__(f"a step of {unit} hasn't come back for {waited_s:.0f} s")
        self.unit = unit
        self.waited_s = waited_s


class UnknownUnit(ResidencyError):  # noqa: N818 - named by situation
    def __init__(self, unit: str) -> None:
        super().__init__(f"no engine named {unit!r} is configured")
        self.unit = unit


def without_frames(error: Exception) -> Exception:
    """It is kept for a while; what was half loaded mustn't be."""
    link: BaseException | None = error
    while link is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
    return error
