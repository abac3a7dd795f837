"""Whole numbers as text, the small ones short: base64 VLQ, as source maps have it.

A number is twice its size, and one more if it is negative; it is written in digits of five bits, the least first, and
all but its last digit have a sixth bit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_DIGITS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", dtype=np.uint8)
_BITS, _MORE = 5, 32


def packed_integers(values: NDArray[np.int64]) -> str:
    rest = np.abs(values).astype(np.uint64) * 2 + (values < 0)
    widths = np.ones(len(rest), dtype=np.int64)
    for bits in range(_BITS, 64, _BITS):
        widths += rest >= 1 << bits
    starts = np.cumsum(widths) - widths
    text = np.empty(int(widths.sum()), dtype=np.uint8)
    for place in range(int(widths.max(initial=0))):
        mine = np.flatnonzero(widths > place)
        digits = (rest[mine] >> np.uint64(_BITS * place)).astype(np.int64) % _MORE
        text[starts[mine] + place] = _DIGITS[digits + _MORE * (widths[mine] > place + 1)]
    return text.tobytes().decode("ascii")
