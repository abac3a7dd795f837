"""The columns of the result tables with types, units and meanings: writes docs/reference/tables.md.

The data are `hearsay.pipeline.output.tables`, `columns.toml` next to it, and `hearsay.pipeline.rows`.

    python tools/table_page.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hearsay.pipeline.output.columns import COMMON, described
from hearsay.pipeline.output.tables import TABLES
from hearsay.pipeline.rows import FRAMES

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "tables.md"
_HEAD = """# Result tables

```sql
-- DuckDB, below a run folder; `open_run(run).sql(…)` knows the tables by name
SELECT message, ratio, p99_us FROM 'metrics/messages/*.parquet' ORDER BY p99_us DESC LIMIT 5;
```

`hearsay analyze` writes each table as `metrics/NAME/*.parquet`. While another analysis ends, read the files that the
latest `metrics/manifest-N.json` names. Types are Spark's. Times are on the clock of the run. Ratios are null, never
NaN, where nothing is counted. [Figures](metrics.md) defines eligible, copy and away, and has the formulas. A column
that is not in a table's own list is in the first one. Made by `python tools/table_page.py`.

In Spark (`hearsay.pipeline.read`, `Tables`) units and meanings are comments of the columns, which `DESCRIBE` shows.
"""
FRAME_TITLES = {
    "rows": "the rows of a trace, in DataFrames `message`, `rpc`, `mesh`, `node`, `score` and `exchange`",
    "runs": "a line per run",
    "topics": "names of topics",
    "nodes": "the nodes of the network; of an import those that traced",
    "planned": "what the scenario says will go wrong",
}


def page() -> str:
    """Return the whole page."""
    columns = {name: frame_columns(name) for name in FRAMES} | {name: table.columns for name, table in TABLES.items()}
    titles = FRAME_TITLES | {name: table.title for name, table in TABLES.items()}
    kinds = {name: kind for pairs in columns.values() for name, kind in pairs}
    common = "\n".join(_row(name, kinds[name], said) for name, said in described()[COMMON].items())
    parts = [_HEAD, f"## Columns of several tables\n\n{_TABLE}\n{common}\n"]
    parts += [_section(name, titles[name], columns[name]) for name in (*TABLES, *FRAMES)]
    return "\n".join(parts)


def frame_columns(name: str) -> list[tuple[str, str]]:
    """Return names and types of the columns of a DataFrame of a trace."""
    pairs = [field.split() for field in FRAMES[name].split(", ")]
    return [(column, kind) for column, kind in pairs]


def _section(name: str, title: str, columns: Sequence[tuple[str, str]]) -> str:
    meanings = described()[name]
    own = "\n".join(_own(columns, meanings))
    others = ", ".join(f"`{column}`" for column, _ in columns if column not in meanings)
    return f"## `{name}`\n\n{_TABLE}\n{own}\n\nHolds {title}. Also {others}.\n"


_TABLE = "|column|type|unit|meaning|\n|-|-|-|-|"


def _own(columns: Sequence[tuple[str, str]], meanings: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    for name, kind in columns:
        if name in meanings:
            yield _row(name, kind, meanings[name])


def _row(name: str, kind: str, said: tuple[str, str]) -> str:
    unit, meaning = said
    return f"|`{name}`|{kind}|{unit}|{meaning}|"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
