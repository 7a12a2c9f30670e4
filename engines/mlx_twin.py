"""A module of MLX with the same weights and a state of its own, so that two streams can use it in turns."""

import copy
from typing import Any


def twin(module: Any) -> Any:
    """Modules, containers and caches are copied; arrays are shared, and so is everything else.

    A stream's state is what a module replaces as it goes on. `copy.deepcopy` can't do it: compiled functions are among
    the attributes.
    """
    return _copied(module, {})


def _copied(value: Any, known: dict[int, Any]) -> Any:
    from mlx import nn

    if id(value) in known:
        return known[id(value)]
    if isinstance(value, nn.Module):
        other = known[id(value)] = copy.copy(value)
        for name, part in value.items():
            other[name] = _copied(part, known)
        for name, part in vars(value).items():
            vars(other)[name] = _copied(part, known)
        return other
    if type(value) is list:
        return [_copied(part, known) for part in value]
    if type(value) is dict:
        return {name: _copied(part, known) for name, part in value.items()}
    if hasattr(value, "update_and_fetch"):
        return copy.copy(value)
    return value
