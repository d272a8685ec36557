# SPDX-License-Identifier: Apache-2.0
"""Checks of what Python hands to C, which would cut numbers off without a word."""
from __future__ import annotations

import difflib
import math
import numbers
from typing import Iterable

from ._errors import TesseraError


def whole(name: str, value: object, least: int, most: int = 2**31 - 1) -> int:
    """A whole number within [least, most], NumPy's included."""
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        if least <= int(value) <= most:
            return int(value)
    raise TesseraError(f"{name}: a whole number from {least} to {most}, found {value!r}", 1)


def number(name: str, value: object, *, zero: bool = False) -> float:
    """A finite number above 0, or from 0 on."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        if math.isfinite(value) and (value > 0 or (zero and value == 0)):
            return float(value)
    raise TesseraError(f"{name}: a number {'from 0' if zero else 'above 0'}, found {value!r}", 1)


def yes_or_no(name: str, value: object) -> bool:
    """True or False; texts such as "no" would be true."""
    if value is True or value is False:
        return bool(value)
    raise TesseraError(f"{name}: must be True or False, found {value!r}", 1)


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """", did you mean 'h.0.weight'?", or nothing."""
    near = difflib.get_close_matches(str(word), list(known), 1)
    return f", did you mean {near[0]!r}?" if near else ""
