"""Tables that are made from larger ones: each task makes some of one run's, and all of them are one job of Spark.

What they make is small and comes back to the driver. A task holds what it reads of one run: its table `messages` and
its rows of the small classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow
import pyarrow.ipc
import pyarrow.parquet

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.kernels.memberships import memberships_of
from hearsay.pipeline.kernels.stored_members import read_members
from hearsay.pipeline.metrics import (
    bargains,
    churn,
    efficiency,
    mesh,
    resilience,
    scores,
    spread,
    state,
    summed_parts,
)
from hearsay.pipeline.metrics.disturbances import changes_of, disturbances_of
from hearsay.pipeline.metrics.headline import headline_lines
from hearsay.pipeline.metrics.knowledge import Knowledge, knowledge_of, measured_lines
from hearsay.pipeline.metrics.part_files import lines_about
from hearsay.pipeline.metrics.peer_exchange import exchange_lines
from hearsay.pipeline.metrics.quality import Line, quality_lines
from hearsay.pipeline.metrics.summed_parts import SummedParts
from hearsay.pipeline.metrics.whole_files import MESSAGE, TRAFFIC
from hearsay.pipeline.output import tables
from hearsay.pipeline.output.stored_tables import arrow_schema
from hearsay.pipeline.output.table_files import write_file
from hearsay.pipeline.output.tables import MetricTable
from hearsay.pipeline.task_tables import Made

pa: Any = pyarrow
ipc: Any = pyarrow.ipc
parquet: Any = pyarrow.parquet

FilesOf = Callable[[Sequence[int]], list[str]]
"""Which files of a run hold the rows of some messages."""
_MESH_TASKS = 64
_LINES_OF_A_TASK = 100_000


@dataclass(frozen=True, slots=True)
class MembershipsOf:
    """Who was in which topic: the table is written where it belongs, since the scan needs it."""

    run: RunFacts
    target: str

    def compute(self) -> Iterator[Made]:
        members = memberships_of(self.run)
        if len(members.topic):
            columns = {
                "run": pa.array([self.run.name] * len(members.topic)),
                "topic": members.topic,
                "node": members.node,
                "since_us": members.since_us,
                "until_us": members.until_us,
            }
            schema = arrow_schema(tables.MEMBERSHIPS)
            write_file(self.target, schema, [pa.table(columns).cast(schema)])
        yield from ()


@dataclass(frozen=True, slots=True)
class Scanned:
    """One run, and what its scan said."""

    run: RunFacts
    parts: SummedParts
    memberships: str
    """Where they lie as Parquet; without lines there is no folder."""

    def knowledge(self) -> Knowledge:
        return knowledge_of(self.run, *self.parts.sizes())


@dataclass(frozen=True, slots=True)
class SumsOf:
    """What adds up of one run: it stays where the tasks after this one look for it."""

    run: RunFacts
    parts: SummedParts

    def compute(self) -> Iterator[Made]:
        self.parts.add_up()
        yield from ()


@dataclass(frozen=True, slots=True)
class LinesOf:
    """Files of what the scan said of messages, or of traffic, as a file of the table: nothing comes back."""

    scanned: Scanned
    table: MetricTable
    sources: Sequence[str]
    target: str

    @property
    def run(self) -> RunFacts:
        return self.scanned.run

    def compute(self) -> Iterator[Made]:
        make = summed_parts.messages_of if self.table == tables.MESSAGES else summed_parts.traffic_of
        made = make(self.sources, self.scanned.knowledge())
        named = made.add_column(0, "run", pa.array([self.run.name] * made.num_rows, pa.string()))
        write_file(self.target, arrow_schema(self.table), [named])
        yield from ()


@dataclass(frozen=True, slots=True)
class AnswersOf:
    """The answers and what they are made of: latencies, loads, churn, peer exchange, disturbances, state,
    refusals, quality."""

    scanned: Scanned
    reader_checks: Sequence[Line]

    @property
    def run(self) -> RunFacts:
        return self.scanned.run

    def compute(self) -> Iterator[Made]:
        run, knowledge, parts = self.run, self.scanned.knowledge(), self.scanned.parts
        messages, traffic = parts.messages(knowledge), parts.traffic(knowledge)
        members = read_members(self.scanned.memberships)
        changes = changes_of(run)
        balance = efficiency.balance_lines(traffic, members, knowledge)
        sampled = state.state_lines(run)
        disturbances = disturbances_of(run, changes, messages)
        recovery = list(resilience.resilience_lines(run, changes, messages, disturbances))
        counts = bargains.counts_of(run, parts.counts())
        checks = [*quality_lines(run, messages, changes, parts.repeated(), counts), *self.reader_checks]
        yield tables.MEASURED, measured_lines(knowledge)
        yield tables.LATENCY, parts.latencies().to_pylist()
        yield tables.CONTROL, efficiency.control_lines(traffic)
        yield tables.BALANCE, balance
        yield tables.EXCHANGE, exchange_lines(run)
        yield tables.CHURN, churn.churn_lines(run, messages, knowledge)
        yield tables.DISTURBANCES, map(asdict, disturbances)
        yield tables.RESILIENCE, recovery
        yield tables.STATE, sampled
        yield tables.REFUSALS, bargains.refusals(counts)
        yield tables.PROMISES, bargains.promises(run, counts)
        yield tables.IDONTWANT, bargains.idontwant(counts)
        yield tables.QUALITY, (dict(zip(("check", "rows", "detail"), check, strict=True)) for check in checks)
        shares = efficiency.control_shares(traffic)
        nodes = len(knowledge.observers)
        yield (
            tables.HEADLINE,
            headline_lines(run, nodes, messages, parts.speeds(), shares, balance, sampled, recovery),
        )


@dataclass(frozen=True, slots=True)
class MeshOf:
    """The mesh over time, of some topics."""

    scanned: Scanned
    topics: Sequence[int]

    @property
    def run(self) -> RunFacts:
        return self.scanned.run

    def compute(self) -> Iterator[Made]:
        lines: dict[MetricTable, list[Mapping[str, Any]]] = {}
        members = read_members(self.scanned.memberships)
        for table, line in mesh.mesh_lines(self.run, self.topics, members, self.scanned.knowledge()):
            lines.setdefault(table, []).append(line)
        yield from lines.items()


@dataclass(frozen=True, slots=True)
class SpreadOf:
    """How a typical message spread."""

    scanned: Scanned
    files_of: FilesOf

    @property
    def run(self) -> RunFacts:
        return self.scanned.run

    def compute(self) -> Iterator[Made]:
        typical = spread.typical_messages(self.scanned.parts.messages(self.scanned.knowledge()))
        files = self.files_of([one.message for one in typical])
        yield tables.SPREAD, spread.spread_lines(self.run, files, typical)


@dataclass(frozen=True, slots=True)
class ScoresOf:
    """What peers think of each other, in a stretch of the run."""

    run: RunFacts
    stretch: scores.Stretch

    def compute(self) -> Iterator[Made]:
        yield from scores.score_lines(self.run, self.stretch)


def tasks_of_run(
    scanned: Scanned, files_of: FilesOf, reader_checks: Sequence[Line], new_file: Callable[[MetricTable], str]
) -> list[Task]:
    """The tasks that make all tables of a run of what its scan said; those that take long come first."""
    run, parts = scanned.run, scanned.parts
    tasks: list[Task] = [AnswersOf(scanned, reader_checks), SpreadOf(scanned, files_of)]
    tasks += [ScoresOf(run, stretch) for stretch in scores.stretches_of(run)]
    tasks += [MeshOf(scanned, topics) for topics in _shares(sorted(run.topics))]
    tasks += [
        LinesOf(scanned, tables.MESSAGES, some, new_file(tables.MESSAGES)) for some in _with_messages(parts.parts)
    ]
    tasks += [LinesOf(scanned, tables.TRAFFIC, [one], new_file(tables.TRAFFIC)) for one in parts.files(TRAFFIC)]
    return tasks


def _with_messages(files: Sequence[str]) -> list[list[str]]:
    """The files that have lines about messages, those of a task together."""
    together: list[list[str]] = []
    room = 0
    for file in files:
        lines = lines_about(MESSAGE, file)
        if lines and room <= 0:
            together.append([])
            room = _LINES_OF_A_TASK
        if lines:
            together[-1].append(file)
            room -= lines
    return together


def _shares(topics: Sequence[int]) -> list[Sequence[int]]:
    """The topics of each task about meshes."""
    count = min(len(topics), _MESH_TASKS)
    return [topics[place::count] for place in range(count)]


Task = MembershipsOf | SumsOf | LinesOf | AnswersOf | MeshOf | SpreadOf | ScoresOf
