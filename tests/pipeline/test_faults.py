"""Faults of an analysis: SIGKILL of one of its processes, a full or read-only disk, and damaged files.

A rerun after a kill completes: no row is lost or counted twice. Finished tables do not change. `bench/kill_spark.py`
kills at fifty seeded points.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from commands import hearsay
from growing_run import GrowingRun, assert_same_tables, assert_whole_or_absent
from kills import DRIVER, JVM, WORKER, Kill, analyze, analyze_and_kill, command, environment, seeded_kills

from hearsay.pipeline.analyze import Follower
from hearsay.pipeline.output.folders import Folder
from hearsay.pipeline.output.tables import METRICS_FOLDER
from hearsay.trace.folder.manifest import RunFolderError

NAME = "topics"


@pytest.mark.thorough
def test_a_batch_whose_driver_is_killed_completes_when_run_again(two_runs, tmp_path):
    (kill,) = [kill for kill in seeded_kills(seed=3, count=3, mode="batch") if kill.victim == DRIVER]
    outcome = analyze_and_kill(kill, two_runs[NAME], tmp_path)
    assert outcome.hit
    assert not (tmp_path / NAME / METRICS_FOLDER).exists()
    assert analyze("batch", two_runs[NAME], tmp_path).returncode == 0
    assert_same_tables(two_runs[NAME], tmp_path / NAME)
    assert not list((tmp_path / NAME).glob(".metrics-*"))


@pytest.mark.thorough
def test_a_follower_whose_jvm_and_then_a_worker_is_killed_goes_on(two_runs, tmp_path):
    run = GrowingRun(two_runs[NAME], tmp_path / NAME)
    run.begin()
    out = tmp_path / "out"
    for kill in (Kill("stream", JVM, 2, 1.0), Kill("stream", WORKER, 2, 2.0)):
        run.grow(len(run.files) // 2)
        outcome = analyze_and_kill(kill, run.path, out)
        assert outcome.hit
        assert "Traceback" not in outcome.errors
        assert_whole_or_absent(out / NAME)
    run.finish()
    done = analyze("stream", run.path, out, "--until-complete")
    assert done.returncode == 0, done.stderr
    assert_same_tables(two_runs[NAME], out / NAME)


KILL_THE_JVM = """
import os, signal
from hearsay.pipeline.spark.settings import SparkUnavailable, Where
from hearsay.pipeline.spark.session import spark_session
from kills import JVM, ends_within, find
try:
    with spark_session(Where(), 1, lambda text: None) as spark:
        echo = spark.range(0, 10, 1, 1).mapInArrow(lambda batches: batches, "id long")
        print(echo.count())
        jvm = find(os.getpid(), JVM)
        os.kill(jvm, signal.SIGKILL)
        ends_within(jvm, 20)
        {then}
except SparkUnavailable as error:
    print(error)
except KeyboardInterrupt:
    print("interrupted")
"""


def kill_the_jvm(then: str) -> subprocess.CompletedProcess[str]:
    """Run a program whose JVM is killed, and which then executes the statement `then`."""
    variables = {**environment(), "PYTHONPATH": os.pathsep.join(sys.path)}
    program = [sys.executable, "-c", KILL_THE_JVM.format(then=then)]
    return subprocess.run(program, capture_output=True, text=True, env=variables, timeout=300)


@pytest.mark.thorough
def test_the_end_of_the_jvm_is_reported_in_one_line_with_a_remedy():
    done = kill_the_jvm("echo.count()")
    counted, line = done.stdout.splitlines()
    assert (counted, done.stderr) == ("10", "")
    assert line.startswith("Spark's JVM has ended, and its work is not done. If memory ran out: its heap is ")
    assert "HEARSAY_SPARK_HEAP sets another" in line


@pytest.mark.thorough
def test_an_interrupt_is_raised_even_if_the_jvm_has_ended():
    done = kill_the_jvm("raise KeyboardInterrupt")
    assert (done.stdout, done.stderr) == ("10\ninterrupted\n", "")


def mounting_command() -> list[str]:
    """Return a command that runs another one which may mount; an empty list if this system does not allow mounts."""
    for options in (["--mount"], ["--user", "--map-root-user", "--mount"]):
        command = ["unshare", *options]
        if shutil.which("unshare") and not subprocess.run([*command, "true"], capture_output=True).returncode:
            return command
    return []


SMALL_DISK = """
set -eu
disk=$1 tables=$2 left=$3 state=$4
shift 4
mount -t tmpfs -o size=8m none "$disk"
mkdir "$disk/run"
echo '{"format": "hearsay-folder", "version": 1, "holds": "tables"}' > "$disk/run/.hearsay-folder"
cp -r "$tables" "$disk/run/metrics"
head -c 100000000 /dev/zero > "$disk/fill" 2> /dev/null || true
truncate -s "-$left" "$disk/fill"
mount -o "remount,$state" "$disk"
code=0
"$@" || code=$?
diff -r "$tables" "$disk/run/metrics"
ls -A "$disk/run"
exit $code
"""


def analyze_on_small_disk(two_runs, tmp_path, mode: str, left: str, state: str) -> subprocess.CompletedProcess[str]:
    """Analyse a run again, with the output on a disk that has its tables; stdout ends in a list of the output folder.

    The disk has `left` free bytes. `state` is "rw" or "ro" for a read-only disk.
    """
    run, disk = tmp_path / "run", tmp_path / "disk"
    shutil.copytree(two_runs[NAME], run, ignore=shutil.ignore_patterns(METRICS_FOLDER))
    disk.mkdir()
    script = [*mounting_command(), "sh", "-c", SMALL_DISK, "sh", str(disk), str(two_runs[NAME] / METRICS_FOLDER)]
    more = ["--until-complete"] if mode == "stream" else []
    return subprocess.run(
        [*script, left, state, *command(mode, run, disk, *more)],
        capture_output=True, text=True, env=environment(), timeout=240,
    )  # fmt: skip


needs_mounts = pytest.mark.skipif(not mounting_command(), reason="this system does not allow mounts")


@pytest.mark.thorough
@needs_mounts
@pytest.mark.parametrize("mode", ["batch", "stream"])
def test_a_full_disk_is_reported_in_one_line_and_finished_tables_stay(two_runs, tmp_path, mode):
    done = analyze_on_small_disk(two_runs, tmp_path, mode, "40000", "rw")
    assert done.returncode == 1, done.stderr
    said = [line for line in done.stderr.splitlines() if not line.startswith("spark: ")]
    assert len(said) == 1, done.stderr
    assert "no space left" in said[0].lower()
    assert "metrics" in done.stdout.splitlines()
    assert not [name for name in done.stdout.splitlines() if name.startswith(".metrics-")]


@pytest.mark.thorough
@needs_mounts
def test_a_read_only_output_is_refused_before_spark_starts(two_runs, tmp_path):
    done = analyze_on_small_disk(two_runs, tmp_path, "batch", "4000000", "ro")
    assert done.returncode == 1, done.stderr
    assert "cannot be written (Read-only file system)" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_output_that_may_not_be_written_is_refused_before_spark_starts(small_run, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    tmp_path.chmod(0o500)
    done = analyze("batch", small_run, tmp_path / "out")
    assert done.returncode == 1
    assert "cannot be written (Permission denied)" in done.stderr


def test_each_damaged_file_is_named_in_one_line(small_run, tmp_path):
    """Three runs are damaged in different ways. Spark does not start, because no run is left."""
    paths = []
    for name, damage in (("cut", cut), ("flipped", flip), ("zero", lambda data: b"\0" * len(data))):
        path = tmp_path / name
        shutil.copytree(small_run, path, ignore=shutil.ignore_patterns(METRICS_FOLDER))
        file = path / "trace/class=message/part-00000.parquet"
        file.write_bytes(damage(file.read_bytes()))
        paths.append(str(path))
    done = hearsay("analyze", *paths)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert len(lines) == 4
    for path, line in zip(paths, lines, strict=False):
        assert path in line
        assert "class=message/part-00000.parquet: changed" in line
    assert "3 of 3 runs could not be read" in lines[3]


def cut(data: bytes) -> bytes:
    return data[:-5]


def flip(data: bytes) -> bytes:
    return data[:200] + bytes([data[200] ^ 4]) + data[201:]


@pytest.mark.thorough
def test_a_follower_names_a_damaged_file_and_does_not_change_tables(spark, two_runs, tmp_path):
    run = GrowingRun(two_runs[NAME], tmp_path / NAME)
    run.begin()
    run.grow(len(run.files))
    shutil.copytree(two_runs[NAME] / METRICS_FOLDER, run.path / METRICS_FOLDER)
    file = run.path / "trace/class=message/part-00000.parquet"
    file.write_bytes(cut(file.read_bytes()))
    with pytest.raises(RunFolderError, match=r"part-00000\.parquet"):
        Follower(spark, Folder(run.path), Folder(run.path), None, lambda _: None).update()
    assert_same_tables(two_runs[NAME], run.path)
