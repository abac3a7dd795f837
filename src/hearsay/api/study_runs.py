"""Many runs, from a program: what is there already is not run again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from hearsay.api.table import Table
from hearsay.extras import require_extra
from hearsay.pipeline.spark.place import Where, cores
from hearsay.pipeline.spark.session import require_spark
from hearsay.studies.errors import StudyError
from hearsay.studies.folder import StudyFolder, read_table
from hearsay.studies.packs import PackMaker
from hearsay.studies.points import Point
from hearsay.studies.run_places import OpenPlace, is_on_spark, place_of_runs
from hearsay.studies.runner import Progress
from hearsay.studies.study_file import Study
from hearsay.studies.sweep import Sweep, Swept
from hearsay.text.toml import value_text

FOLDER = Path("sweeps")
"""Where studies go without a folder, as the commands put them."""

Progresses = Callable[[Progress], None]


def texts_of(changes: Mapping[str, object] | None) -> list[tuple[str, str]]:
    """Changed keys as the command line gives them."""
    return [(key, value if isinstance(value, str) else value_text(value)) for key, value in (changes or {}).items()]


def make_runs(
    study: Study,
    points: Sequence[Point],
    folder: StudyFolder,
    where: Where,
    progress: Progresses | None,
    *,
    again: bool = False,
) -> Swept:
    """Make the runs that are missing. `StudyError`, `StudyFolderError` and `SparkUnavailable` say what cannot be."""
    sweep = Sweep(study, points, folder, again=again)
    return sweep.run(place_of(study, where), progress or say_nothing)


def place_of(study: Study, where: Where) -> OpenPlace:
    """Where runs are made; Spark is asked for when there are some to make."""
    wanted = study.cores_per_task
    if where == Where() and wanted > cores():
        raise StudyError([f"{study.name}: cores_per_task = {wanted}: there are {cores()} cores here"])
    open_place = place_of_runs(where, wanted, say_nothing)

    def place(modules: Sequence[Path]) -> AbstractContextManager[PackMaker]:
        if is_on_spark(where):
            require_extra("spark")
            require_spark(where)
        return open_place(modules)

    return place


def table_of(folder: Path, name: str, names: Sequence[str]) -> Table:
    """A table of a study's folder; `names` are those that there are."""
    if name not in names:
        raise KeyError(f"no table {name!r}; there are {', '.join(names)}")
    return Table(read_table(folder, name))


def errors_by_run(failures: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {row["run"]: row["error"] for row in failures}


def say_nothing(_: object) -> None: ...
