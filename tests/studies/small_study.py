"""A study whose runs take hundredths of a second, as a file and as sweeps of it."""

from __future__ import annotations

import subprocess
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet
from commands import hearsay as run_command
from kills import environment
from local_runs import run_locally

from hearsay.pipeline.spark.settings import Where
from hearsay.studies.packs import Row
from hearsay.studies.points import points_of
from hearsay.studies.processes import Processes, SparkTasks
from hearsay.studies.results import StudyFolder, tables_of
from hearsay.studies.runner import Sweep, Swept
from hearsay.studies.study_file import load_study

STUDY = Path(__file__).with_name("small.toml").read_text(encoding="utf-8")
SAME_EVERYWHERE = ("runs", "points", "sent", "latency")
"""Tables that do not depend on the machine."""


def write_study(folder: Path, text: str = STUDY, name: str = "small") -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return path


def sweep_on_spark(spark, path: Path, out: Path, **options) -> Swept:
    """Sweep a study in a Spark session of this process."""
    study = load_study(path)
    sweep = Sweep(study, points_of(study), StudyFolder.open(out), **options)
    return sweep.run(lambda _: nullcontext(SparkTasks(spark, Where(), study.cores_per_task)), lambda _: None)


def sweep_in_processes(path: Path, out: Path, listen=lambda _: None) -> Swept:
    study = load_study(path)
    return Sweep(study, points_of(study), StudyFolder.open(out)).run(lambda _: Processes(2), listen)


def hearsay(
    *arguments: object, cwd: Path | None = None, variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command `hearsay`, without the variables of this process's Spark session."""
    return run_command(*arguments, cwd=cwd, env={**environment(), **(variables or {})})


def table(folder: Path, name: str):
    return pyarrow.parquet.read_table(folder / "tables" / f"{name}.parquet")


def assert_equal_tables(folder: Path, other: Path) -> None:
    for name in SAME_EVERYWHERE:
        assert table(folder, name).equals(table(other, name)), name


def assert_tables_of_local_runs(folder: Path, study_file: Path) -> None:
    """Assert that the study's runs, executed in this process without Spark, give the same tables to the last bit."""
    study = load_study(study_file)
    expected = tables_of(study, points_of(study), _local_results(study_file.read_text(encoding="utf-8")))
    for name in SAME_EVERYWHERE:
        assert table(folder, name).equals(expected[name]), name


@cache
def _local_results(text: str) -> dict[str, Row]:
    """Execute the runs of a study in this process, and return their results. Later calls return the same results."""
    with TemporaryDirectory() as folder:
        study = load_study(write_study(Path(folder), text))
    return run_locally(study, points_of(study))
