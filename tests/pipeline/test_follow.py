"""Following a run: each step counts the rows of the files that exist, and the last tables equal those of a batch
analysis.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest
from commands import hearsay
from growing_run import GrowingRun, assert_same_tables

from hearsay.pipeline.analyze import Follower, analyze
from hearsay.pipeline.output.folders import Folder
from hearsay.pipeline.output.tables import read_table
from hearsay.pipeline.run_facts import load_runs
from hearsay.report.first_screen import caveats
from hearsay.report.runs import open_runs
from hearsay.trace.compare_runs import verify
from hearsay.trace.folder.writer import TraceWriter
from hearsay.trace.language.schema import Column
from hearsay.trace.reader import read_rows
from hearsay.trace.run_series import RunSeries


def quality(output: Path) -> dict[str, int]:
    lines = read_table(output, "quality").to_pylist()
    return {line["check"]: line["rows"] for line in lines}


@pytest.mark.thorough
def test_a_run_followed_file_by_file_ends_in_the_tables_of_the_batch(spark, analysed, tmp_path):
    """Messages span files, so early figures change when further files appear. A second follower ends the work of the
    first.
    """
    run = GrowingRun(analysed["spanning"], tmp_path / "run")
    said: list[str] = []
    follower = Follower(spark, Folder(run.path), Folder(run.path), None, said.append)
    assert follower.update() is None
    run.begin()
    run.grow(len(run.files) // 2)
    assert follower.update() is None
    rows = sum(parquet.read_metadata(file).num_rows for file in run.path.glob("trace/class=*/*.parquet"))
    assert quality(run.path)["rows"] == rows
    before = len(said)
    assert follower.update() is None
    assert len(said) == before
    run.finish()
    facts = Follower(spark, Folder(run.path), Folder(run.path), None, said.append).update()
    assert facts is not None
    assert_same_tables(run.source, run.path)


@pytest.mark.thorough
def test_a_live_nodes_series_is_followed_as_one_run(spark, analysed, tmp_path):
    """A node writes a run folder every few seconds, and seals the series when it closes. Messages span folders."""
    rows = read_rows(analysed["topics"])
    rows = rows[np.argsort(rows[:, Column.TIME_US], kind="stable")]
    rows[:, Column.TIME_US] += 1_700_000_000_000_000  # times of live nodes count from 1970
    said: list[str] = []
    series = RunSeries(tmp_path / "node")
    peers, topics = [str(number) for number in range(61)], ["news", "other"]
    for number, lot in enumerate(np.array_split(rows, 4)):
        series.write_names(peers, topics, "hearsay")
        folder = series.next_folder()
        with TraceWriter(folder.path) as writer:
            writer.add(lot)
            folder.write_manifest(writer.close(), seed=None, complete=True)
        if number == 1:
            assert Follower(spark, Folder(series.path), Folder(tmp_path / "out"), None, said.append).update() is None
            length_s = (lot[-1, Column.TIME_US] - rows[0, Column.TIME_US]) / 1e6
            assert f" {length_s:.1f} s of the run" in said[-1]
            (selected,) = open_runs([tmp_path / "out"]).runs
            found = [row for row in selected.read("quality").to_pylist() if row["rows"]]
            assert "the run is still being written, so the figures end there." in caveats(selected, found)
            assert quality(tmp_path / "out")["rows"] == sum(map(len, np.array_split(rows, 4)[:2]))
    series.seal(peers, topics, "hearsay")
    assert verify(series.path) == []
    assert Follower(spark, Folder(series.path), Folder(tmp_path / "out"), None, print).update() is not None
    analyze(spark, load_runs([series.path]), {"node": Folder(series.path)}, lambda _: None)
    assert_same_tables(series.path, tmp_path / "out")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--until-complete"], "--until-complete needs --follow"),
        (["run", "other", "--follow"], "--follow takes one run folder"),
        (["run", "--follow", "--remote", "sc://127.0.0.1"], "--follow cannot be used with --remote"),
        (["run", "--follow", "--format", "tracestat"], "--follow and --format tracestat: give one"),
        (["no/such/folder/run", "--follow"], "does not exist"),
    ],
)
def test_a_run_that_cannot_be_followed_is_refused_at_once(arguments, said, tmp_path):
    done = hearsay("analyze", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
