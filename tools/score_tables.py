"""Writes the tables of the named sets of score parameters in docs/guide/scores.md.

python tools/score_tables.py
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

from page_tables import with_tables

from hearsay.core.scores.named_sets import named_set
from hearsay.core.scores.score_parameters import ANY_TOPIC
from hearsay.core.shell.parameters import Parameters

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "scores.md"
_SETS = ("go", "rust", "js", "nim", "jvm", "hardening", "filecoin", "ethereum", "lighthouse", "ethereum-prysm")
_TOPICS = {
    "rust, js": ("rust", ANY_TOPIC),
    "nim": ("nim", ANY_TOPIC),
    "hardening": ("hardening", ANY_TOPIC),
    "filecoin blocks": ("filecoin", "blocks"),
    "… messages": ("filecoin", "messages"),
    "… drand": ("filecoin", "drand"),
    "ethereum block": ("ethereum", "beacon_block"),
    "… aggregate": ("ethereum", "beacon_aggregate_and_proof"),
    "… attestation": ("ethereum", "beacon_attestation"),
    "lighthouse block": ("lighthouse", "beacon_block"),
}


def table(name: str) -> str:
    if name == "set-topics":
        return _compared({column: named_set(name).topics[topic] for column, (name, topic) in _TOPICS.items()})
    if name == "set-thresholds":
        return _compared({name: named_set(name).thresholds for name in _SETS})
    return _compared({name: named_set(name).peer for name in _SETS})


def page() -> str:
    """Return the page with up-to-date tables."""
    return with_tables(PAGE, table)


def _compared(columns: Mapping[str, Parameters]) -> str:
    """Return a table with a row for each parameter that differs from its default in a column."""
    declared = fields(next(iter(columns.values())))
    rows = (
        (f"`{each.name}`", *(_other_than_default(each, parameters) for parameters in columns.values()))
        for each in declared
        if each.name != "validation"
    )
    return _rendered(("parameter", *columns), [row for row in rows if any(row[1:])])


def _other_than_default(declared: Field[Any], parameters: Parameters) -> str:
    value = getattr(parameters, declared.name)
    return "" if value == declared.default else _plain(value)


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        whole = f"{value:,.0f}".replace(",", " ")
        return (whole if value == int(value) else f"{value:.6g}").replace("-", "−")
    return str(value)


def _rendered(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [tuple(head), *map(tuple, rows)]
    lines.insert(1, ("-",) * len(lines[0]))
    return "\n".join(f"|{'|'.join(cells)}|" for cells in lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
