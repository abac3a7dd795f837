"""The results of a study: the folder with the rows of its runs, and the tables that are made from all rows.

    study.toml            the file of a sweep; a tuning has tune.toml
    scenarios/POINT.toml  each point's resolved scenario, which `hearsay simulate` runs
    results/*.parquet     the rows of finished runs; each pack adds a file
    traces/RUN/           run folders, if the study asks for traces
    tables/NAME.parquet   the tables below
    answer/               scenarios and budgets of a tuning, see `tuning/output.py`
    report.html           the report of a command, with the folder `pictures`

| table | a row is |
| --- | --- |
| `runs` | a run: its axes, its seed, its metrics or its error |
| `points` | a metric at a point: the mean over its seeds with a 95 % interval |
| `sent` | a kind of RPC part in a run: the number of parts that were sent |
| `latency` | a bin of latencies in a run: the number of deliveries in the bin |
| `resources` | a run: engine, seconds, memory, and the host and process that executed it |

Rules:

* The rows of a pack that finishes are one file of `results/`, which appears whole. After a kill the folder has
  exactly the rows of the finished packs; partial files are removed when the folder is next opened for writing.
* The order of the files does not matter. If a run has two rows, a row without an error is used.
* More than `MANY_FILES` files are merged into one, which is written before the others are removed.
* Only folders that this program made are changed (`trace.folder.own_folders`), by one process at a time.
  A folder that is open for reading is not changed.
* Tables are written when a sweep ends. All tables except `resources` depend only on scenarios and seeds, and their
  rows are in the order of points and seeds. So these tables are equal to the last bit on every machine.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import uuid4

from hearsay.foreign_files import open_regular
from hearsay.studies.checked_file import StudyFolderError
from hearsay.studies.packs import FIGURES, Row
from hearsay.studies.points import Point
from hearsay.studies.statistics import mean_of
from hearsay.studies.study_file import Study
from hearsay.text import shown_value
from hearsay.trace.folder.arrow import DAMAGED, pa, parquet
from hearsay.trace.folder.arrow_compute import read_plain
from hearsay.trace.folder.durable import TEMPORARY_NAMES, DurableFile, write_durably
from hearsay.trace.folder.manifest import RunFolderError
from hearsay.trace.folder.own_folders import Holds, OwnFolder, claim, require_ours

TABLES = ("runs", "points", "sent", "latency", "resources")
MANY_FILES = 200
_WRITTEN_BY_ITS_OWNER = ("results", "scenarios", "tables", "answer")
_INNER = (*_WRITTEN_BY_ITS_OWNER, "traces", "traces/.arriving", "pictures")
_OF_RESULTS = re.compile(r"[0-9a-f]{32}\.parquet")


def fields(text: str) -> list[tuple[str, Any]]:
    """Return pairs of a column's name and Arrow type for a text such as "run string, seed int64"."""
    return [(name, pa.type_for_alias(kind)) for name, kind in (column.split() for column in text.split(", "))]


_FIGURE_FIELDS = [(figure.name, pa.int64() if figure.is_count else pa.float64()) for figure in FIGURES]
_NAMES = fields("run string, point string, seed int64")
_RESOURCE_FIELDS = fields(
    "engine string, events int64, wall_s double, cpu_s double, peak_bytes int64, started double, "
    "host string, pid int64"
)
MEAN = fields("mean double, low double, high double")
_SENT, _LATENCY = fields("kind string, parts int64"), fields("up_to_ms int64, deliveries int64")
RESULTS = pa.schema(
    [
        *_NAMES,
        *fields("error string"),
        *_FIGURE_FIELDS,
        *fields("trace_hash string"),
        ("sent_by_kind", pa.list_(pa.struct(_SENT))),
        ("latencies", pa.list_(pa.struct(_LATENCY))),
        *_RESOURCE_FIELDS,
    ]
)
"""The columns of the files in `results/` of the study's folder, which have a row for each run."""


class StudyFolder:
    """The folder of a study. `own` is this process's claim to write to the folder; None if it is open for reading."""

    def __init__(self, path: Path, own: OwnFolder | None = None) -> None:
        self.path = path
        self._own = own
        self._results = path / "results"
        self.damaged: list[Path] = []
        """Files of `results/` that the last call of `results` could not read. Runs in these files are treated as
        missing.
        """

    @classmethod
    def open(cls, path: Path) -> StudyFolder:
        """Create the folder or open an existing one, for writing. Raise `StudyFolderError` if the folder cannot be
        written, is not a study's folder, or is open for writing in another process.
        """
        try:
            own = claim(path, Holds.STUDY, inner=_INNER)
        except RunFolderError as error:
            raise StudyFolderError(str(error)) from None
        folder = cls(path, own)
        try:
            for name in ("results", "scenarios", "tables"):
                (path / name).mkdir(exist_ok=True)
            shutil.rmtree(folder._arriving, ignore_errors=True)
            for name in _WRITTEN_BY_ITS_OWNER:
                for left in (path / name).glob(TEMPORARY_NAMES):
                    left.unlink()
        except OSError as error:
            own.release()
            raise StudyFolderError(f"{path}: cannot be written ({error.strerror}); choose another folder") from None
        return folder

    @classmethod
    def open_for_reading(cls, path: Path) -> StudyFolder:
        """Open the folder for reading; it may be missing. Raise `StudyFolderError` if it is not a study's folder."""
        try:
            require_ours(path, Holds.STUDY, inner=_INNER)
        except RunFolderError as error:
            raise StudyFolderError(str(error)) from None
        return cls(path)

    def close(self) -> None:
        """Let other processes open the folder for writing."""
        if self._own is not None:
            self._own.release()

    @property
    def _arriving(self) -> Path:
        return self.path / "traces" / ".arriving"

    def results(self) -> dict[str, Row]:
        """Return the rows of all finished runs, including failed runs, by the name of the run. Set `damaged`.

        If the folder is open for writing, merge the files of `results/` that can be read, if there are more than
        `MANY_FILES`.
        """
        found: dict[str, Row] = {}
        self.damaged = []
        files = sorted(file for file in self._results.glob("*.parquet") if _OF_RESULTS.fullmatch(file.name))
        for file in files:
            try:
                rows = _rows_of(file)
            except DAMAGED:
                self.damaged.append(file)
                continue
            for row in rows:
                known = found.get(row["run"])
                if known is None or known["error"] is not None:
                    found[row["run"]] = row
        if self._own is not None and len(files) - len(self.damaged) > MANY_FILES:
            self.add(found.values())
            for file in files:
                if file not in self.damaged:
                    file.unlink()
        return found

    def add(self, rows: Iterable[Row]) -> None:
        """Write the rows of finished runs as a new file of `results/`."""
        table = pa.Table.from_pylist(list(rows), schema=RESULTS)
        _write_table(self._results / f"{uuid4().hex}.parquet", table)

    def add_trace(self, run: str, name: str, offset: int, data: bytes) -> None:
        """Write a piece of the file `name` of a run folder at an offset. The pieces of a file come in order.
        `finish_trace` moves the complete folder to `traces/RUN`. Raise `StudyFolderError` if the piece cannot be
        written, or if its file would not be in the run folder.
        """
        if any(PurePosixPath(each).is_absolute() or ".." in PurePosixPath(each).parts for each in (run, name)):
            raise StudyFolderError(f"{name!r} of {run!r}: a task sent a file that leaves the folder")
        file = self._arriving / run / name
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("r+b" if offset else "wb") as target:
                target.seek(offset)
                target.write(data)
        except OSError as error:
            raise StudyFolderError(f"{file}: cannot be written ({error.strerror})") from None

    def finish_trace(self, run: str) -> None:
        arrived, final = self._arriving / run, self.path / "traces" / run
        if arrived.exists() and not final.exists():
            arrived.rename(final)

    def has_trace(self, run: str) -> bool:
        return (self.path / "traces" / run).is_dir()

    def write_text(self, name: str, text: str) -> None:
        _write(self.path / name, text.encode())

    def write_scenario(self, point: Point) -> None:
        """Write a point's scenario and the files that the scenario names. Skip files that exist, since their names
        contain hashes of the content.
        """
        for name, text in (*point.files, (f"{point.name}.toml", point.scenario)):
            if not (self.path / "scenarios" / name).exists():
                self.write_text(f"scenarios/{name}", text)

    def write_tables(self, tables: Mapping[str, Any]) -> None:
        for name, table in tables.items():
            _write_table(self.path / "tables" / f"{name}.parquet", table)


def _rows_of(file: Path) -> list[Row]:
    """Return the rows of a file of `results/`. Raise an error of `DAMAGED` if the file cannot be read, if it lacks
    `run`, `point`, `seed` or `error`, or if a column of `RESULTS` has another type. The file may lack other columns.
    """
    found: Any = parquet.ParquetFile(open_regular(file), page_checksum_verification=True)
    have: Any = found.schema_arrow
    for name in ("run", "point", "seed", "error"):
        if name not in have.names:
            raise LookupError(name)
    for field in RESULTS:
        if field.name in have.names and have.field(field.name).type != field.type:
            raise ValueError(field.name)
    return found.read().to_pylist()


def read_table(folder: Path, name: str) -> Any:
    """Return a table of a study's folder. Raise `StudyFolderError` if it cannot be read."""
    file = folder / "tables" / f"{name}.parquet"
    try:
        return read_plain(file)
    except DAMAGED:
        raise StudyFolderError(f"{file}: cannot be read; run the study again") from None


def _write_table(path: Path, table: Any) -> None:
    _write(path, lambda file: parquet.write_table(table, file, compression="zstd"))


def _write(path: Path, content: bytes | Callable[[DurableFile], object]) -> None:
    try:
        write_durably(path, content)
    except OSError as error:
        raise StudyFolderError(f"{path}: cannot be written ({error.strerror})") from None


def tables_of(study: Study, points: Sequence[Point], results: Mapping[str, Row]) -> dict[str, Any]:
    """Return all tables by name. Runs without a row in `results` are left out."""
    keys, at = axis_columns(study)
    found = [(point, results[run]) for point in points for run in point.run_names if run in results]
    runs = [{**row, **at(point)} for point, row in found]
    lines = {
        "runs": runs,
        "points": [{**at(point), **line} for point in points for line in _figures_at(point, results)],
        "sent": [{**row, **part} for _, row in found for part in row.get("sent_by_kind") or ()],
        "latency": [{**row, **part} for _, row in found for part in row.get("latencies") or ()],
        "resources": [row for _, row in found],
    }
    schemas = {
        "runs": [*_NAMES, *keys, *fields("error string"), *_FIGURE_FIELDS, *fields("trace_hash string")],
        "points": [*fields("point string"), *keys, *fields("figure string, seeds int64"), *MEAN],
        "sent": [*_NAMES, *_SENT],
        "latency": [*_NAMES, *_LATENCY],
        "resources": [*_NAMES, *_RESOURCE_FIELDS],
    }  # fmt: skip
    return {name: pa.Table.from_pylist(lines[name], schema=pa.schema(schemas[name])) for name in TABLES}


def axis_columns(study: Study) -> tuple[list[tuple[str, Any]], Callable[[Point], Row]]:
    """Return the name and Arrow type of a column for each key of the axes, and a function that returns the values of
    these columns for a point.
    """
    axes = [(key, number, place) for number, axis in enumerate(study.axes) for place, key in enumerate(axis.keys)]
    keys = [(key, _column_type(step[place] for step in study.axes[number].steps)) for key, number, place in axes]

    def at(point: Point) -> Row:
        return {
            key: _cell(study.axes[number].steps[point.steps[number]][place], kind)
            for (key, number, place), (_, kind) in zip(axes, keys, strict=True)
        }

    return keys, at


def values_at(point: Point, results: Mapping[str, Row], figure: str) -> list[float]:
    """Return the values of a metric in the successful runs of a point that have a value, in the order of seeds."""
    return list(values_by_seed(point, results, figure).values())


def values_by_seed(point: Point, results: Mapping[str, Row], figure: str) -> dict[int, float]:
    """Return the values of a metric in the successful runs of a point that have a value, by seed."""
    found: dict[int, float] = {}
    for seed in point.seeds:
        row = results.get(point.run_name(seed))
        if row is not None and row["error"] is None and row.get(figure) is not None:
            found[seed] = float(row[figure])
    return found


def _figures_at(point: Point, results: Mapping[str, Row]) -> Iterator[Row]:
    for figure in FIGURES:
        mean = mean_of(values_at(point, results, figure.name))
        if mean is not None:
            yield {"point": point.name, "figure": figure.name, **asdict(mean)}


def _column_type(values: Iterable[object]) -> Any:
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return pa.bool_()
    if kinds == {int}:
        return pa.int64()
    return pa.float64() if kinds <= {int, Decimal} else pa.string()


def _cell(value: object, kind: Any) -> object:
    if kind == pa.string():
        return value if isinstance(value, str) else shown_value(value)
    return float(value) if isinstance(value, Decimal) or kind == pa.float64() else value  # pyright: ignore[reportArgumentType]
