"""Many runs on Spark, from a program: what is there already is not run again."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hearsay.extras import require_extra
from hearsay.pipeline.spark.session import Where, cores, require_spark, spark_session
from hearsay.sim.scenario.toml_text import shown_value
from hearsay.studies.errors import StudyError
from hearsay.studies.folder import StudyFolder
from hearsay.studies.points import Point
from hearsay.studies.runner import Progress
from hearsay.studies.study_file import Study
from hearsay.studies.sweep import Sweep, Swept

FOLDER = Path("sweeps")
"""Where studies go without a folder, as the commands put them."""

Progresses = Callable[[Progress], None]


def texts_of(changes: Mapping[str, object] | None) -> list[tuple[str, str]]:
    """Changed keys as the command line gives them."""
    return [(key, value if isinstance(value, str) else shown_value(value)) for key, value in (changes or {}).items()]


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
    wanted = study.cores_per_task
    if where.master is None and where.remote is None and wanted > cores():
        raise StudyError([f"{study.name}: cores_per_task = {wanted}: there are {cores()} cores here"])
    sweep = Sweep(study, points, folder, again=again)
    if sweep.missing:
        require_extra("spark")
        require_spark(where)

    @contextmanager
    def session(modules: Sequence[Path]) -> Generator[Any]:
        with spark_session(where, 0, _say_nothing, cores_per_task=wanted, modules=modules) as spark:
            yield spark

    return sweep.run(where, session, progress or _say_nothing)


def _say_nothing(_: object) -> None: ...
