"""Writes docs/reference/tables.md: the columns of the result tables with types, units and meanings.

These are in `src/hearsay/pipeline/output/tables.toml`.

    python tools/table_page.py
"""

from __future__ import annotations

from pathlib import Path

from hearsay.pipeline.output.tables import COMMON, FRAMES, TABLES, ColumnFacts, TableSchema

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "tables.md"
_HEAD = """# Result tables

```sql
-- DuckDB, below a run folder; `open_run(run).sql(…)` knows the tables by name
SELECT message, ratio, p99_us FROM 'metrics/messages/*.parquet' ORDER BY p99_us DESC LIMIT 5;
```

`hearsay analyze` writes each table as `metrics/NAME/*.parquet`. While another analysis ends, read the files that the
latest `metrics/manifest-N.json` names. Types are Spark's. Times are on the clock of the run. Ratios are null, never
NaN, where nothing is counted. [Figures](metrics.md) defines eligible, copy and away, and has the formulas. The next
table has the columns of several tables. `python tools/table_page.py` makes this page.

In Spark (`hearsay.pipeline.read`, `Tables`) units and meanings are comments of the columns, which `DESCRIBE` shows.
"""


def page() -> str:
    """Return the whole page."""
    schemas = TABLES | FRAMES
    common = "\n".join(_row(name, column) for name, column in COMMON.items())
    parts = [_HEAD, f"## Columns of several tables\n\n{_TABLE}\n{common}\n"]
    return "\n".join([*parts, *(_section(name, schema) for name, schema in schemas.items())])


def _section(name: str, schema: TableSchema) -> str:
    own = {column: facts for column, facts in schema.columns.items() if COMMON.get(column) != facts}
    rows = "\n".join(_row(column, facts) for column, facts in own.items())
    others = ", ".join(f"`{column}`" for column in schema.columns if column not in own)
    return f"## `{name}`\n\n{_TABLE}\n{rows}\n\nHolds {schema.title}. Also {others}.\n"


_TABLE = "|column|type|unit|meaning|\n|-|-|-|-|"


def _row(name: str, column: ColumnFacts) -> str:
    return f"|`{name}`|{column.kind}|{column.unit}|{column.meaning}|"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
