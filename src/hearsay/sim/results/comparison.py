"""Several routers on one network with the same messages, as one table: what each choice costs and brings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hearsay.core.language.rpc import PartKind
from hearsay.sim.results.summary import Summary

CONTROL_KINDS = (PartKind.GRAFT, PartKind.PRUNE, PartKind.IHAVE, PartKind.IWANT)


@dataclass(frozen=True, slots=True)
class ComparisonLine:
    """One router's line in the table."""

    router: str
    delivery_ratio: float | None
    copies_per_delivery: float | None
    p50_ms: float | None
    p99_ms: float | None
    mean_hops: float | int | None
    control: int


def line_of(summary: Summary) -> ComparisonLine:
    copies = summary.deliver + summary.duplicates
    return ComparisonLine(
        summary.router,
        summary.delivery_ratio,
        copies / summary.deliver if summary.deliver else None,
        summary.latency_ms["p50"],
        summary.latency_ms["p99"],
        summary.hops["mean"],
        sum(summary.sent.get(kind.name.lower(), 0) for kind in CONTROL_KINDS),
    )


COLUMNS: tuple[tuple[str, Callable[[ComparisonLine], str]], ...] = (
    ("router", lambda line: line.router),
    ("delivered", lambda line: _shown(line.delivery_ratio, "{:.3%}")),
    ("copies per delivery", lambda line: _shown(line.copies_per_delivery, "{:.2f}")),
    ("latency p50 ms", lambda line: _shown(line.p50_ms, "{:.0f}")),
    ("latency p99 ms", lambda line: _shown(line.p99_ms, "{:.0f}")),
    ("hops", lambda line: _shown(line.mean_hops, "{:.2f}")),
    ("control messages", lambda line: f"{line.control:,}"),
)


def markdown(lines: Iterable[ComparisonLine]) -> str:
    rows = [[text(line) for _, text in COLUMNS] for line in lines]
    header = [name for name, _ in COLUMNS]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    divider = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    table = [header, divider, *rows]
    return "\n".join(
        "| "
        + " | ".join(
            _aligned(cell, width, index) for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        + " |"
        for row in table
    )


def _aligned(cell: str, width: int, index: int) -> str:
    return cell.ljust(width) if index == 0 else cell.rjust(width)


def _shown(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)
