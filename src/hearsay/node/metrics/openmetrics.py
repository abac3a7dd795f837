"""The text format OpenMetrics 1.0: families of samples with names, labels and values.

The samples of a counter have the suffix `_total`; the name of its family does not. The last word of a name may be a
unit. A label value may be any text: backslash, quote and line break are escaped, so that no value can forge a line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_UNITS = ("seconds", "bytes")


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


_SUFFIXES = {Kind.COUNTER: "_total", Kind.INFO: "_info"}
Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Family:
    """Samples of one name, in the order in which they were added."""

    name: str
    kind: Kind
    help: str
    lines: list[str] = field(default_factory=list[str])

    def add(self, value: float, labels: Labels = ()) -> Family:
        self._line(_SUFFIXES.get(self.kind, ""), labels, value)
        return self

    def add_each(self, label: str, values: Iterable[tuple[str, float]]) -> Family:
        """Add a sample for each value of a label."""
        for text, value in values:
            self.add(value, ((label, text),))
        return self

    def add_histogram(self, bounds: Sequence[float], counts: Sequence[int], total: float) -> Family:
        """Add a histogram. `counts` has the number of values in each bucket, the last one above all `bounds`."""
        below = 0
        for bound, count in zip((*bounds, float("inf")), counts, strict=True):
            below += count
            self._line("_bucket", (("le", _number(bound)),), below)
        self._line("_sum", (), total)
        self._line("_count", (), below)
        return self

    def text(self) -> Iterator[str]:
        yield f"# TYPE {self.name} {self.kind}\n"
        unit = self.name.rpartition("_")[2]
        if unit in _UNITS:
            yield f"# UNIT {self.name} {unit}\n"
        yield f"# HELP {self.name} {_escaped(self.help)}\n"
        yield from self.lines

    def _line(self, suffix: str, labels: Labels, value: float) -> None:
        named = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels)
        self.lines.append(f"{self.name}{suffix}{{{named}}} {_number(value)}\n" if named
                          else f"{self.name}{suffix} {_number(value)}\n")  # fmt: skip


def exposition(families: Iterable[Family]) -> bytes:
    """Return the exposition of all families that have samples."""
    lines = [line for family in families if family.lines for line in family.text()]
    return "".join((*lines, "# EOF\n")).encode()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    if value == float("-inf"):
        return "-Inf"
    return repr(value)
