"""The question of scale: how the figures grow with the number of nodes, told from runs of different sizes."""

from __future__ import annotations

from collections.abc import Sequence

from hearsay.report.numbers import count, figure, milliseconds, percent, plural, size
from hearsay.report.run import Row, Run, View

_FIGURES = (
    ("latency_p99_ms", "p99 latency", milliseconds),
    ("copies_per_delivery", "copies per delivery", figure),
    ("bytes_out_mean", "bytes sent per node", size),
    ("state_bytes_mean", "state per node", size),
)


def scale(runs: Sequence[Run], view: View) -> str:
    """Compares the smallest and the largest run of this run's router and topic."""
    own = view.headline
    nodes = own["nodes"]
    if nodes is None:
        return "Not measured: the number of nodes is not known."
    peers = sorted(
        (
            other.headline
            for run in runs
            for other in run.views
            if other.place == view.place and other.headline["router"] == own["router"] and other.headline["nodes"]
        ),
        key=_nodes,
    )
    if not peers or _nodes(peers[0]) == _nodes(peers[-1]):
        return (
            f"Not answered by runs of one size ({plural(nodes, 'node')}): "
            "report runs of the same router with different numbers of nodes together."
        )
    small, large = peers[0], peers[-1]
    parts = [
        f"{name} {show(small[key])} → {show(large[key])}"
        for key, name, show in _FIGURES
        if small[key] is not None and large[key] is not None
    ]
    if small["delivery_ratio"] is not None and large["delivery_ratio"] is not None:
        parts.insert(0, f"delivered {percent(small['delivery_ratio'])} → {percent(large['delivery_ratio'])}")
    router = "" if own["router"] is None else f" of {own['router']}"
    grown = f"From {count(_nodes(small))} to {plural(_nodes(large), 'node')} (runs{router})"
    if not parts:
        return f"{grown}: no figure is known of both."
    return f"{grown}: {'; '.join(parts)}. Other differences between the runs count in."


def _nodes(row: Row) -> int:
    return int(row["nodes"])
