"""Checks of arguments that several modules share."""

from __future__ import annotations

import operator
from typing import SupportsIndex

__all__ = ["whole_number"]


def whole_number(name: str, value: SupportsIndex, minimum: int) -> int:
    """The value as an int (NumPy's and torch's integers included), at least `minimum`.

    Raises:
        TypeError: not an integer.
        ValueError: below `minimum`.
    """
    if isinstance(value, bool):
        raise TypeError(f"{name}={value} must be a whole number")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}={value!r} must be a whole number") from None
    if number < minimum:
        raise ValueError(f"{name}={number} must be at least {minimum}")
    return number
