"""A run folder for programs: its summary, and its trace rows and result tables with names in addition to numbers.

    run = hearsay.open_run("runs/first")
    run.rows(events=["deliver"], topics=["blocks"]).pandas()
    run.table("headline").polars()
    run.sql("SELECT node_name, sum(bytes_out) AS sent FROM traffic GROUP BY ALL ORDER BY sent DESC")

`rows` and `table` load into memory; SQL reads files of any size. `explain_message` explains a message of a run.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from hearsay.api.table import Table, ask, dictionary_file, read_dictionary, with_names
from hearsay.core.language.rpc import PartKind
from hearsay.explain import answers
from hearsay.explain.message import find_node, open_message
from hearsay.explain.words import heading
from hearsay.pipeline.input.run_facts import summary_of
from hearsay.pipeline.output.stored_tables import read_table, stored_files
from hearsay.pipeline.output.tables import TABLES
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.text.tables import html_table
from hearsay.trace.folder.arrow import table_of
from hearsay.trace.folder.manifest import Manifest, load_manifest
from hearsay.trace.language.columns import ColumnBuilder
from hearsay.trace.language.errors import RunFolderError
from hearsay.trace.language.schema import TraceEvent, wire_name
from hearsay.trace.read.reader import chosen_rows

ROWS = "rows"
_DICTIONARIES = ("peers", "topics")
_Code = TypeVar("_Code", bound=IntEnum)


def open_run(folder: str | Path) -> Run:
    """Open the run in a folder. Raises `RunFolderError` if the folder has no readable run."""
    return Run(Path(folder))


class Run:
    """The folder of a simulation, of a node's trace or of an import."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._manifest: Manifest = load_manifest(folder)

    @property
    def complete(self) -> bool:
        """Return True if the run has ended by itself, False if it was interrupted."""
        return self._manifest.complete

    @property
    def trace_hash(self) -> str:
        return self._manifest.trace.hash

    @property
    def seed(self) -> int | None:
        """Return the seed of a simulation; None for other runs."""
        return self._manifest.seed

    @cached_property
    def summary(self) -> dict[str, Any] | None:
        """Return the summary of a simulation, as in `hearsay simulate --json`; None for other runs."""
        return summary_of(self.folder) or None

    @cached_property
    def scenario(self) -> Scenario | None:
        """Return the scenario of a simulation with every key; None for other runs."""
        file = self.folder / "scenario.toml"
        return load_scenario(file) if file.is_file() else None

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the names of the tables that exist: those of the analysis, and `peers` and `topics`."""
        metrics = [name for name in TABLES if stored_files(self.folder, name)]
        return (*metrics, *(name for name in _DICTIONARIES if dictionary_file(self.folder, name).is_file()))

    def table(self, name: str) -> Table:
        """Return a table that `hearsay analyze` has written, or the run's `peers` or `topics`."""
        if name in _DICTIONARIES:
            found = read_dictionary(self.folder, name)
            if found is None:
                raise RunFolderError(f"{self.folder}: has no table {name}")
            return Table(found)
        if name not in TABLES:
            raise KeyError(f"no table {name!r}; there are {', '.join((*TABLES, *_DICTIONARIES))}")
        return Table(with_names(self.folder, read_table(self.folder, name)))

    def rows(
        self,
        *,
        events: Collection[str | TraceEvent] | None = None,
        kinds: Collection[str | PartKind] | None = None,
        peers: Collection[int | str] | None = None,
        remotes: Collection[int | str] | None = None,
        topics: Collection[int | str] | None = None,
        messages: Collection[int] | None = None,
        from_us: int | None = None,
        before_us: int | None = None,
        derive: bool = False,
    ) -> Table:
        """Return the rows of the trace that meet all given conditions, in canonical order.

        Peers and topics are names or numbers. Times are microseconds; `before_us` is not included. `derive` adds the
        rows that follow from sends: receives and duplicates.
        """
        rows = chosen_rows(
            self.folder,
            events=None if events is None else [_code(TraceEvent, event) for event in events],
            kinds=None if kinds is None else [_code(PartKind, kind) for kind in kinds],
            peers=peers,
            remotes=remotes,
            topics=topics,
            messages=messages,
            from_us=from_us,
            before_us=before_us,
            derive=derive,
        )
        columns = ColumnBuilder(len(rows)).build(rows)
        return Table(with_names(self.folder, table_of(columns)))

    def sql(self, question: str, values: Sequence[object] = ()) -> Table:
        """Run a query in DuckDB's SQL. Tables have their names, the trace is `rows`, and `?` stands for a value."""
        files = {name: stored_files(self.folder, name) for name in self.tables if name in TABLES}
        files |= {name: [dictionary_file(self.folder, name)] for name in self.tables if name in _DICTIONARIES}
        trace = [self.folder / file.name for file in self._manifest.trace.files]
        return ask(self.folder, {**files, **({ROWS: trace} if trace else {})}, question, values)

    def __repr__(self) -> str:
        state = "" if self.complete else ", interrupted"
        return f"<Run {self.folder}: {self._manifest.trace.rows:,} rows{state}, tables {', '.join(self.tables)}>"


def _code(codes: type[_Code], given: str | _Code) -> _Code:
    """Return the event or kind that has this name in traces. Raises `ValueError` if there is none."""
    if not isinstance(given, str):
        return given
    known = {wire_name(code): code for code in codes}
    if given not in known:
        raise ValueError(f"{given!r} is not one of {', '.join(known)}")
    return known[given]


class Explanation:
    """The explanation of a message, from the trace of its run."""

    def __init__(self, explanation: answers.Explanation) -> None:
        self._explanation = explanation

    def to_json(self) -> dict[str, Any]:
        """Return the output of `hearsay explain --json`: times in microseconds after the publication."""
        return self._explanation.to_json()

    def __str__(self) -> str:
        return self._explanation.text()

    def _repr_html_(self) -> str:
        caption = f"{heading(self._explanation.message)}: {self._explanation.summary}"
        table = self._explanation.table
        if table is None:
            return html_table((), (), caption, 0)
        return html_table(table.head, table.rows, caption, table.left)


def explain_message(
    run: Run | str | Path, message: int | str, *, node: int | str | None = None, missing: bool = False
) -> Explanation:
    """Explain a message of a run, named by its number or the beginning of its id.

    With `node` (number or name), explain when that node got it, or why it never did. With `missing`, list the nodes
    that should have got it but did not, with reasons. Without both, show the slowest deliveries and common traits.
    Raises `RunFolderError` if the folder has no run, and `ValueError` for an unknown message or node.
    """
    if missing and node is not None:
        raise ValueError("missing and node: give one; node also explains why a node never got the message")
    opened = open_message(run.folder if isinstance(run, Run) else Path(run), str(message))
    number = None if node is None else find_node(opened.run, opened.names, str(node))
    return Explanation(answers.explain(opened, number, missing))
