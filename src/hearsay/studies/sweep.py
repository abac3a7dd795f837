"""A sweep: what there is to run, the running of it, and the tables in the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hearsay.pipeline.spark.work_folder import work_folder
from hearsay.studies.code import carried_modules
from hearsay.studies.folder import StudyFolder
from hearsay.studies.packs import Row, Task
from hearsay.studies.points import Point
from hearsay.studies.processes import OpenPlace
from hearsay.studies.runner import Progress, Runner, missing, tasks_of
from hearsay.studies.study_file import Study
from hearsay.studies.tables import tables_of


@dataclass(frozen=True, slots=True)
class Swept:
    """The result of a sweep."""

    study: Study
    points: Sequence[Point]
    results: Mapping[str, Row]
    """The rows of the study's runs, by run."""
    made: int
    """How many of them were made now."""

    @property
    def failures(self) -> list[Row]:
        return [row for row in self.results.values() if row["error"] is not None]


class Sweep:
    """A study's points in its folder, ready to go on from where it is."""

    def __init__(self, study: Study, points: Sequence[Point], folder: StudyFolder, *, again: bool = False) -> None:
        """`again` makes the runs once more that have failed."""
        self.study = study
        self.folder = folder
        self.points = points
        self._tasks = tasks_of(study, points)
        self.missing: list[Task] = missing(self._tasks, folder, again=again)

    @property
    def runs(self) -> int:
        return len(self._tasks)

    def run(self, place: OpenPlace, listen: Callable[[Progress], None]) -> Swept:
        """Make the runs that are missing, and write the tables: of what there is, also when it ends early."""
        for point in self.points:
            self.folder.write_scenario(point)
        try:
            if self.missing:
                with work_folder() as work:
                    modules = carried_modules((point.scenario for point in self.points), work)
                    with place(modules) as maker:
                        Runner(self.missing, self.points, maker, self.folder, listen).run()
        finally:
            swept = self.swept()
            self.folder.write_tables(tables_of(self.study, self.points, swept.results))
        return swept

    def swept(self) -> Swept:
        results = self.folder.results()
        own = {task.run: results[task.run] for task in self._tasks if task.run in results}
        return Swept(self.study, self.points, own, sum(task.run in results for task in self.missing))
