"""Runs of a study, executed in this process without Spark, with the results that a sweep stores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hearsay.studies.packs import Row, perform
from hearsay.studies.points import Point, points_of
from hearsay.studies.runner import Swept, tasks_of
from hearsay.studies.study_file import Study, load_study


def run_locally(study: Study, points: Sequence[Point]) -> dict[str, Row]:
    return {task.run: perform(task) for task in tasks_of(study, points)}


def sweep_locally(path: Path) -> Swept:
    study = load_study(path)
    points = points_of(study)
    results = run_locally(study, points)
    return Swept(study, points, results, len(results))
