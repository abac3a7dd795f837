"""The columns of the result tables with types, units and meanings: writes docs/reference/tables.md.

The data are `hearsay.pipeline.output.tables` and `columns.toml` next to it.

    python tools/table_page.py
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from hearsay.pipeline.output import tables

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "tables.md"
COLUMNS = Path(tables.__file__).with_name("columns.toml")
_HEAD = """# Result tables

```sql
-- DuckDB, below a run folder; `open_run(run).sql(…)` knows the tables by name
SELECT message, ratio, p99_us FROM 'metrics/messages/*.parquet' ORDER BY p99_us DESC LIMIT 5;
```

`hearsay analyze` writes each table as `metrics/NAME/*.parquet`. While another analysis ends, read the files that the
latest `metrics/manifest-N.json` names. Types are Spark's. Times are on the clock of the run. Ratios are null, never
NaN, where nothing is counted. [Figures](metrics.md) defines eligible, copy and away, and has the formulas. A column
that is not in a table's own list is in the first one. Made by `python tools/table_page.py`.
"""


def described() -> Mapping[str, Mapping[str, tuple[str, str]]]:
    """Return unit and meaning by table (or `common`) and column."""
    return tomllib.loads(COLUMNS.read_text(encoding="utf-8"))


def page() -> str:
    """Return the whole page."""
    meanings = described()
    kinds = {name: kind for table in tables.TABLES.values() for name, kind in table.columns}
    common = "\n".join(_row(name, kinds[name], said) for name, said in meanings["common"].items())
    parts = [_HEAD, f"## Columns of several tables\n\n{_TABLE}\n{common}\n"]
    for table in tables.TABLES.values():
        own = "\n".join(_own(table, meanings[table.name]))
        others = ", ".join(f"`{name}`" for name in table.names if name not in meanings[table.name])
        parts.append(f"## `{table.name}`\n\n{_TABLE}\n{own}\n\nHolds {table.title}. Also {others}.\n")
    return "\n".join(parts)


_TABLE = "|column|type|unit|meaning|\n|-|-|-|-|"


def _own(table: tables.MetricTable, meanings: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    for name, kind in table.columns:
        if name in meanings:
            yield _row(name, kind, meanings[name])


def _row(name: str, kind: str, said: tuple[str, str]) -> str:
    unit, meaning = said
    return f"|`{name}`|{kind}|{unit}|{meaning}|"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
