"""How large the views should be: fixed, or from an estimate of the overlay's size.

Rule (episub spec, "Design Parameters for View Sizes"):

* SKETCH-1: C_rand = log10 N, at least 1; A = C_rand + c, so c of the links are near ones;
  P = k · A.

The estimate is a k-minimum-values sketch of the node keys (Bar-Yossef and others 2002): every node keeps the
smallest hashes of the node keys it heard of; if the k-th smallest of 2⁶⁴ possible values is v, there are about
(k − 1) · 2⁶⁴ / v nodes. Sketches travel with SHUFFLE and SHUFFLEREPLY and are merged, so that after a few rounds all
nodes hold the same one. An entry that its node does not renew fades after `_LIFETIME` shuffle periods, so departures
show. The relative error is about 1/√k, which log10 shrinks to a fraction of one neighbour.

A hash and its age travel as one number, `hash · 256 + age`.
"""

from __future__ import annotations

from collections.abc import Iterable

from hearsay.core.episub.parameters import EpisubParameters, ViewSizes
from hearsay.core.rules.mixing import extend

SKETCH_SIZE = 32
_LIFETIME = 30
_AGES = 256
_SPACE = 1 << 56
_SALT = 0x5CA1AB1E


class TargetSizes:
    """A and P of one topic at one node."""

    __slots__ = ("_ages", "_own", "_parameters", "active_size", "passive_size", "random_links")

    def __init__(self, parameters: EpisubParameters, key: int) -> None:
        self._parameters = parameters
        self._own = extend(_SALT, key) >> 8
        self._ages: dict[int, int] = {self._own: 0}
        self.random_links = parameters.random_links
        self.active_size = parameters.active_size
        self.passive_size = parameters.passive_size

    @property
    def estimating(self) -> bool:
        return self._parameters.view_sizes is ViewSizes.ESTIMATED

    @property
    def near_links(self) -> int:
        return self.active_size - self.random_links

    def enough(self, links: int) -> bool:
        """Whether so many links allow to give one up for a better one."""
        return links > self.random_links

    def sketch(self) -> tuple[int, ...]:
        """What to send, once per shuffle period: entries age by it."""
        if not self.estimating:
            return ()
        self._ages = {known: age + 1 for known, age in self._ages.items() if age < _LIFETIME}
        self._ages[self._own] = 0
        self._resize()
        return self.shown()

    def shown(self) -> tuple[int, ...]:
        """The sketch as it is."""
        if not self.estimating:
            return ()
        return tuple(known * _AGES + self._ages[known] for known in sorted(self._ages)[:SKETCH_SIZE])

    def merge(self, sketch: Iterable[int]) -> None:
        """Take in another's sketch; the younger of two ages counts."""
        if not self.estimating:
            return
        for entry in list(sketch)[:SKETCH_SIZE]:
            known, age = divmod(entry, _AGES)
            if 0 <= known < _SPACE and age <= _LIFETIME:
                self._ages[known] = min(age, self._ages.get(known, _LIFETIME))
        self._ages = {known: self._ages[known] for known in sorted(self._ages)[:SKETCH_SIZE]}
        self._resize()

    @property
    def estimate(self) -> int:
        """About how many nodes there are, this one included."""
        if len(self._ages) < SKETCH_SIZE:
            return len(self._ages)
        return (SKETCH_SIZE - 1) * _SPACE // max(1, sorted(self._ages)[SKETCH_SIZE - 1])

    def _resize(self) -> None:
        parameters = self._parameters
        self.random_links = min(max(1, _rounded_log10(max(1, self.estimate))), parameters.active_limit)
        self.active_size = min(self.random_links + parameters.size_constant, parameters.active_limit)
        self.passive_size = parameters.passive_factor * self.active_size


def _rounded_log10(number: int) -> int:
    """log10 to the nearest integer, without floating point: 10^(d − ½) is below a number when its square is."""
    digits = len(str(number)) - 1
    return digits + (number * number >= 10 ** (2 * digits + 1))
