"""`open_run` and `explain_message`: the summary, trace rows and result tables of a run, and explanations of messages.

    run = hearsay.open_run("runs/first")
    run.rows(events=["deliver"], topics=["blocks"]).pandas()
    run.table("headline").polars()
    run.sql("SELECT node_name, sum(bytes_out) AS sent FROM traffic GROUP BY ALL ORDER BY sent DESC")

`rows` and `table` load a whole table into memory, `sql` loads only the result of the query. Tables have a column of
names next to each column of numbers of nodes, topics or messages, if the run has these names.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from hearsay.api.table import Table, ask, read_dictionary, with_names
from hearsay.core.language.rpc import PartKind
from hearsay.explain import answers
from hearsay.explain.message import find_node, open_message
from hearsay.explain.words import heading
from hearsay.pipeline.output.tables import TABLES, read_table, stored_files
from hearsay.pipeline.run_facts import summary_of
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.text import html_table
from hearsay.trace.folder.arrow import ColumnBuilder, table_of
from hearsay.trace.folder.manifest import Manifest, RunFolderError, load_manifest
from hearsay.trace.folder.run_folder import dictionary_file
from hearsay.trace.language.schema import TraceEvent, wire_name
from hearsay.trace.reader import RowFilter, chosen_rows

ROWS = "rows"
_DICTIONARIES = ("peers", "topics")
_Code = TypeVar("_Code", bound=IntEnum)


def open_run(folder: str | Path) -> Run:
    """Open the run in a folder. Raise `RunFolderError` if the folder has no readable run."""
    return Run(Path(folder))


class Run:
    """A run: a simulation, the trace of a node, or an import. `folder` is the folder of the run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._manifest: Manifest = load_manifest(folder)

    @property
    def complete(self) -> bool:
        """Return True if the run ended as planned, False if it was interrupted."""
        return self._manifest.complete

    @property
    def trace_hash(self) -> str:
        """Return the hash of the rows of the trace, in hexadecimal."""
        return self._manifest.trace.hash

    @property
    def seed(self) -> int | None:
        """Return the seed of a simulation; None for other runs."""
        return self._manifest.seed

    @cached_property
    def summary(self) -> dict[str, Any] | None:
        """Return the summary of a simulation, which `hearsay simulate --json` prints; None for other runs."""
        return summary_of(self.folder) or None

    @cached_property
    def scenario(self) -> Scenario | None:
        """Return the resolved scenario of a simulation; None for other runs."""
        file = self.folder / "scenario.toml"
        return load_scenario(file) if file.is_file() else None

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the names of the tables that the run has: the result tables of an analysis, and `peers` and
        `topics`.
        """
        metrics = [name for name in TABLES if stored_files(self.folder, name)]
        return (*metrics, *(name for name in _DICTIONARIES if dictionary_file(self.folder, name).is_file()))

    def table(self, name: str) -> Table:
        """Return a result table that `hearsay analyze` has written, or the dictionary `peers` or `topics`. Raise
        `KeyError` if there is no such table, and `RunFolderError` if the run does not have the table.
        """
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
        """Return the rows of the trace that meet all conditions, in the order of time. None is no condition.

        Each condition lists the values that a row may have: `peers` and `remotes` are names or numbers of nodes,
        `topics` names or numbers, `messages` numbers. `from_us` is the first time, and `before_us` the time after the
        last, in microseconds. `derive` adds rows that a simulation does not store, because they follow from sends:
        receives and duplicates. Raise `ValueError` for an unknown event or kind, and `RunFolderError` for an unknown
        name of a node or topic.
        """
        chosen = RowFilter(
            None if events is None else [_code(TraceEvent, event) for event in events],
            None if kinds is None else [_code(PartKind, kind) for kind in kinds],
            peers,
            remotes,
            topics,
            messages,
            from_us,
            before_us,
        )
        rows = chosen_rows(self.folder, chosen, derive=derive)
        columns = ColumnBuilder(len(rows)).build(rows)
        return Table(with_names(self.folder, table_of(columns)))

    def sql(self, question: str, values: Sequence[object] = ()) -> Table:
        """Run a query in DuckDB's SQL, and return its result. The query can use the `tables` of this run, and the
        stored rows of the trace as the table `rows`. `values` are the values for the `?` in the query, in order.
        """
        files = {name: stored_files(self.folder, name) for name in self.tables if name in TABLES}
        files |= {name: [dictionary_file(self.folder, name)] for name in self.tables if name in _DICTIONARIES}
        trace = [self.folder / file.name for file in self._manifest.trace.files]
        return ask(self.folder, {**files, **({ROWS: trace} if trace else {})}, question, values)

    def __repr__(self) -> str:
        state = "" if self.complete else ", interrupted"
        return f"<Run {self.folder}: {self._manifest.trace.rows:,} rows{state}, tables {', '.join(self.tables)}>"


def _code(codes: type[_Code], given: str | _Code) -> _Code:
    """Return the event or kind that has this name in traces. Raise `ValueError` if there is none."""
    if not isinstance(given, str):
        return given
    known = {wire_name(code): code for code in codes}
    if given not in known:
        raise ValueError(f"{given!r} is not one of {', '.join(known)}")
    return known[given]


class Explanation:
    """The result of `explain_message`. `str` of it is the text of `hearsay explain`."""

    def __init__(self, explanation: answers.Explanation) -> None:
        self._explanation = explanation

    def to_json(self) -> dict[str, Any]:
        """Return the object that `hearsay explain --json` prints. Times are microseconds after the publication."""
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
    """Explain the spread of a message in a run. `message` is the number of the message, or the beginning of its id.

    With `node` (number or name), explain when and over which path this node got the message, or why it did not. With
    `missing`, list the nodes that should have got the message but did not, with the reasons. Without both, show the
    slowest deliveries, and what these have in common. Raise `RunFolderError` if the folder has no run, and
    `ValueError` if the run has no such message or node, or if both `node` and `missing` are given.
    """
    if missing and node is not None:
        raise ValueError("missing and node: give one; node also explains why a node did not get the message")
    opened = open_message(run.folder if isinstance(run, Run) else Path(run), str(message))
    number = None if node is None else find_node(opened.run, opened.names, str(node))
    return Explanation(answers.explain(opened, number, missing))
