"""What the library itself makes of a request in one go, to compare with."""

from typing import Any

import numpy as np
import torch

from engines.contract import Samples


def generated(call: Any, **words: Any) -> Samples:
    """`call`: one of the library's generate_*; its global random state is that of the seed."""
    seed = words.pop("seed", 0)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        (samples,), rate_hz = call(**words)
    assert rate_hz == 24000
    return np.asarray(samples, np.float32)
