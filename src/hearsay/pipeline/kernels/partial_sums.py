"""Partial sums by keys, and how they are merged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hearsay.pipeline.kernels.sums import (
    Ints,
)


@dataclass(frozen=True, slots=True)
class Sums:
    """Partial sums: `keys` (n, k) and `values` (n, v), both int64."""

    keys: Ints
    values: Ints


def joined(parts: list[Sums]) -> Sums:
    """All lines of all parts; at least one part."""
    return Sums(np.concatenate([part.keys for part in parts]), np.concatenate([part.values for part in parts]))


def merged(parts: list[Sums]) -> Sums:
    """One line per key, with the sums over the parts."""
    if len(parts) == 1:
        return parts[0]
    whole = joined(parts)
    return grouped(list(whole.keys.T), list(whole.values.T))


def grouped(keys: list[Ints], values: list[Ints]) -> Sums:
    """Sums of values by equal keys; keys are packed into one word where they fit."""
    size = len(keys[0])
    if not size:
        return Sums(np.empty((0, len(keys)), dtype=np.int64), np.empty((0, len(values)), dtype=np.int64))
    lows = [int(key.min()) for key in keys]
    spans = [int(key.max()) - low + 1 for key, low in zip(keys, lows, strict=True)]
    total = 1
    for span in spans:
        total *= span
    if total >= 1 << 62:
        matrix, inverse = np.unique(np.stack([key.astype(np.int64) for key in keys], 1), axis=0, return_inverse=True)
        return Sums(matrix, _summed(inverse.reshape(-1), values, len(matrix)))
    packed = np.zeros(size, dtype=np.int64)
    for key, low, span in zip(keys, lows, spans, strict=True):
        packed = packed * span + (key.astype(np.int64) - low)
    if total <= max(4 * size, 1 << 16):
        present = np.bincount(packed, minlength=total)
        places = np.flatnonzero(present)
        sums = _summed(packed, values, total)[places]
    else:
        places, inverse = np.unique(packed, return_inverse=True)
        sums = _summed(inverse.reshape(-1), values, len(places))
    unpacked: list[Ints] = []
    for low, span in zip(reversed(lows), reversed(spans), strict=True):
        unpacked.append(places % span + low)
        places = places // span
    return Sums(np.stack(unpacked[::-1], 1), sums)


def _summed(groups: Ints, values: list[Ints], count: int) -> Ints:
    """Exact integer sums; bincount adds in doubles, which are exact below 2^53."""
    return np.stack([np.bincount(groups, weights=value, minlength=count).astype(np.int64) for value in values], 1)
