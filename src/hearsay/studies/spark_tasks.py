"""Runs as Spark tasks: a pack of runs is a job of one task, and its rows return to the caller.

Rules:

* Nothing needs a shared file system: what a task needs is in the job, what it made comes back in its result. So the
  same works embedded, on a cluster and over Spark Connect.
* Jobs are independent: they are asked for from several threads, Spark gives each the next free slot.
* An error of a task that is not a failed run (a killed process, a missing module) fails the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from hearsay.pipeline.spark.failures import in_one_line
from hearsay.pipeline.spark.place import SparkUnavailable, Where
from hearsay.studies.packs import Made, Task, make_pack
from hearsay.trace.folder.arrow import pa

_RESULT = "run string, file string, place bigint, data binary"
GONE = "Spark has gone (killed, out of memory?)"


class SparkTasks:
    """An open session as a `PackMaker`."""

    def __init__(self, session: Any, where: Where, cores_per_task: int) -> None:
        self._session = session
        self._connect = where.remote is not None
        self._where = where
        self._cores_per_task = cores_per_task
        self._slots = self._ask_for_slots()

    @property
    def slots(self) -> int:
        """How many tasks run at a time. A cluster may grow, and says so as long as we have a driver there."""
        if not self._connect:
            try:
                self._slots = int(self._session.sparkContext.defaultParallelism)
            except Exception:
                raise SparkUnavailable(GONE) from None
        return max(1, self._slots // self._cores_per_task)

    def run(self, pack: Sequence[Task]) -> Iterator[Made]:
        """Make the runs of a pack; blocks until a slot is free and the runs are made."""
        tasks = tuple(pack)

        def work(batches: Iterable[Any]) -> Iterator[Any]:
            _read_out(batches)
            yield from map(_line, make_pack(tasks))

        one: Any = self._session.range(0, 1, 1, 1)
        made: Any = one.mapInArrow(work, _RESULT)
        # Traces may be large and come piece by piece; rows come at once, which is quicker.
        for line in made.toLocalIterator() if any(task.trace for task in tasks) else made.collect():
            yield Made(line.run, line.file, line.place, bytes(line.data))

    def alive(self) -> bool:
        """Return True if Spark still runs after a failed job."""
        try:
            session = self._session
            return bool(
                session.conf.get("spark.app.name") if self._connect else session.sparkContext.defaultParallelism
            )
        except Exception:
            return False

    def cancel(self) -> None:
        """End all jobs of the session, if Spark still answers."""
        try:
            if self._connect:
                self._session.interruptAll()
            else:
                self._session.sparkContext.cancelAllJobs()
        except Exception:
            return

    def _ask_for_slots(self) -> int:
        """How many parts Spark cuts work into, asked of the tasks themselves: so their Python is tried out too."""
        try:
            parts = self._session.range(1 << 16).mapInArrow(_one_line, "part int").count()
        except Exception as error:
            raise SparkUnavailable(f"tasks on {self._where} cannot run this program: {in_one_line(error)}") from None
        return int(parts)


def _one_line(batches: Iterable[Any]) -> Iterator[Any]:
    _read_out(batches)
    yield pa.RecordBatch.from_pydict({"part": pa.array([0], pa.int32())})


def _read_out(batches: Iterable[Any]) -> None:
    """Spark keeps a worker for the next task, and all it has loaded, only if it read its input to the end."""
    for _ in batches:
        pass


def _line(made: Made) -> Any:
    types = {"run": pa.string(), "file": pa.string(), "place": pa.int64(), "data": pa.binary()}
    return pa.RecordBatch.from_pydict({name: pa.array([getattr(made, name)], types[name]) for name in types})
