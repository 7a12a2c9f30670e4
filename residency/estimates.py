"""What a unit's work costs, learned from every step: seconds by text length, load of a listener, audio by text."""

from math import exp, inf, log

MEMORY = 0.97
"""Weight of the past at each observation: about 33 of them count."""
BLOCK_MEMORY = 0.8
BLOCK_S = 20.0
"""Cost is taken over blocks of this much speech: single short segments cost more than listeners do."""
FIRST_BLOCKS_S = 2.0
HIGH = 0.9
UNKNOWN_STEP_S = 0.1
UNKNOWN_COST = 0.1
UNKNOWN_CHARS_PER_S = 15.0
"""A second of speech holds about 15 characters."""


class Line:
    """y = a + b * x with a, b >= 0, by least squares that forget and that no outlier pulls far."""

    __slots__ = ("_memory", "_weight", "_x", "_xx", "_xy", "_y")

    def __init__(self, memory: float = MEMORY) -> None:
        self._memory = memory
        self._weight = self._x = self._y = self._xx = self._xy = 0.0

    @property
    def known(self) -> bool:
        return self._weight > 0

    def observe(self, x: float, y: float) -> None:
        if self._weight > 3:
            expected = self.at(x)
            y = min(max(y, expected / 4), expected * 4)
        self._weight = self._weight * self._memory + 1
        self._x = self._x * self._memory + x
        self._y = self._y * self._memory + y
        self._xx = self._xx * self._memory + x * x
        self._xy = self._xy * self._memory + x * y

    def at(self, x: float) -> float:
        if self._weight == 0:
            return 0.0
        mean_x, mean_y = self._x / self._weight, self._y / self._weight
        spread = self._xx / self._weight - mean_x * mean_x
        if spread <= 1e-6 * (mean_x * mean_x + 1):
            # Only one length was seen: a longer text takes in proportion, a shorter one maybe as long.
            return mean_y * max(1.0, x / mean_x) if mean_x > 0 else mean_y
        slope = max(0.0, (self._xy / self._weight - mean_x * mean_y) / spread)
        if mean_y < slope * mean_x:
            return mean_y * x / mean_x
        return mean_y + slope * (x - mean_x)


class High:
    """The ratio to its expectation that nine of ten stay under, in constant memory.

    Each observation moves the logarithm, up nine times as far as down (Robbins and Monro).
    """

    __slots__ = ("_log", "_stride")

    def __init__(self, start: float, stride: float) -> None:
        self._log = log(start)
        self._stride = stride

    def observe(self, ratio: float) -> None:
        above = log(max(ratio, 1e-3)) > self._log
        self._log = min(max(self._log + self._stride * (HIGH if above else HIGH - 1), 0.0), log(4.0))

    @property
    def ratio(self) -> float:
        return exp(self._log)


class Estimates:
    """Of one unit, over all lanes that have it loaded; call it under their lock.

    `speech_s` is audio at speed 1, so that a listener's load is its speed times the cost.
    """

    def __init__(self, max_batch: int = 1) -> None:
        self._max_batch = max_batch
        self._first = Line()
        self._later = Line()
        self._high = High(1.3, 0.1)
        self._device = Line(BLOCK_MEMORY)
        """Device seconds that a second of speech of every stream in a batch takes, by the batch's size."""
        self._device_high = High(1.05, 0.05)
        self._blocks: dict[int, tuple[float, float]] = {}
        """Step and speech seconds that aren't counted yet, by batch."""
        self._seen: set[int] = set()
        self._speech_s = self._chars = 0.0

    @property
    def known(self) -> bool:
        return self._first.known

    def observe_step(self, *, chars: int, first: bool, step_s: float, speech_s: float, batch: int) -> None:
        """One step; `chars` and `speech_s` are the mean of its streams, `first` says that one has begun."""
        line = self._first if first else self._later
        x = chars if first else 0
        if line.known and (expected_s := line.at(x)) > 0:
            self._high.observe(step_s / expected_s)
        line.observe(x, step_s)
        self._observe_cost(step_s, speech_s, batch)

    def _observe_cost(self, step_s: float, speech_s: float, batch: int) -> None:
        before_step_s, before_speech_s = self._blocks.get(batch, (0.0, 0.0))
        step_s, speech_s = before_step_s + step_s, before_speech_s + speech_s
        if speech_s < (BLOCK_S if batch in self._seen else FIRST_BLOCKS_S):
            self._blocks[batch] = (step_s, speech_s)
            return
        self._blocks.pop(batch, None)
        self._seen.add(batch)
        ratio = step_s / speech_s
        if self._device.known and (expected := self._device.at(batch)) > 0:
            self._device_high.observe(ratio / expected)
        self._device.observe(batch, ratio)

    def observe_job(self, *, chars: int, speech_s: float) -> None:
        """A whole segment has been made."""
        self._chars = self._chars * MEMORY + chars
        self._speech_s = self._speech_s * MEMORY + speech_s

    def step_s(self, chars: int, *, first: bool = True) -> float:
        """The expected time of a step."""
        line = self._first if first or not self._later.known else self._later
        return line.at(chars if first else 0) if line.known else UNKNOWN_STEP_S

    def step_high_s(self, chars: int, *, first: bool = True) -> float:
        """What nine of ten such steps take at most."""
        return self.step_s(chars, first=first) * self._high.ratio

    def cost(self, listeners: int = 1) -> float:
        """Device seconds for a second of speech of each of so many listeners at once."""
        batch = max(1, min(listeners, self._max_batch))
        if self._device.known:
            return self._device.at(batch) / batch
        step_s, speech_s = self._blocks.get(batch, (0.0, 0.0))
        return step_s / speech_s / batch if speech_s > 0 else UNKNOWN_COST

    def cost_high(self, listeners: int = 1) -> float:
        """Nine of ten blocks of speech cost at most this."""
        return self.cost(listeners) * self._device_high.ratio

    def streams(self, capacity: float) -> float:
        """How many listeners at speed 1 the device can hold; infinite before anything was measured."""
        if not self._device.known:
            return inf
        full = int(capacity / max(self.cost_high(self._max_batch), 1e-6))
        if full >= self._max_batch:
            return full
        fitting = (n for n in range(self._max_batch, 1, -1) if n * self.cost_high(n) <= capacity)
        return next(fitting, 1)

    def speech_s(self, chars: int) -> float:
        """The expected length of so much text at speed 1."""
        if self._chars == 0:
            return chars / UNKNOWN_CHARS_PER_S
        return chars * self._speech_s / self._chars
