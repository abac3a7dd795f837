"""The question of scale: how the figures grow with the number of nodes, told from runs of different sizes."""

from __future__ import annotations

from collections.abc import Sequence

from hearsay.metrics import shown_in
from hearsay.report.run import Row, Run, View
from hearsay.text.numbers import Form, count, figure, plural, seconds, shown


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
    parts: list[str] = []
    changes: list[tuple[str, Form, float | None, float | None]] = [
        (metric.title, metric.form, small[metric.column], large[metric.column]) for metric in shown_in("scale")
    ]
    changes.append(("bytes sent per node and message", "bytes", _per_message(small), _per_message(large)))
    for title, form, before, after in changes:
        if before is not None and after is not None:
            parts.append(f"{title} {shown(before, form)} → {shown(after, form)}")
    router = "" if own["router"] is None else f" of {own['router']}"
    grown = f"From {count(_nodes(small))} to {plural(_nodes(large), 'node')} (runs{router})"
    if not parts:
        return f"{grown}: no figure is known of both."
    return f"{grown}: {'; '.join(parts)}. {_caveat(small, large)}"


def _caveat(small: Row, large: Row) -> str:
    """Runs that differ in more than their size tell of more than their size."""
    others: list[str] = []
    if small["messages"] != large["messages"]:
        others.append(f"{count(small['messages'] or 0)} and {plural(large['messages'] or 0, 'message')}")
    if small["seconds"] is not None and large["seconds"] is not None and small["seconds"] != large["seconds"]:
        others.append(f"{figure(small['seconds'])} and {seconds(large['seconds'])}")
    known = f" (they have {', '.join(others)})" if others else ""
    return f"Whatever else differs between the runs{known} counts in."


def _per_message(row: Row) -> float | None:
    mean = row["bytes_out_mean"]
    return mean / row["messages"] if mean is not None and row["messages"] else None


def _nodes(row: Row) -> int:
    return int(row["nodes"])
