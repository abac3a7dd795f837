"""Signals end every command in good order: one line, the shell's exit code, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from commands import HEARSAY, has_printed, hearsay, signalled, spark_opens_a_session, started
from kills import heed_signals

ENDS = [
    (signal.SIGINT, "interrupted", 130),
    (signal.SIGTERM, "terminated", 143),
    (signal.SIGHUP, "hung up", 129),
]
LONG = ("--nodes", 200, "--messages", 5000, "--rotate", 1)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("signals") / "run"
    assert hearsay("simulate", "--nodes", 30, "--messages", 3, "--out", folder).returncode == 0
    return folder


@pytest.mark.parametrize(("number", "word", "code"), ENDS)
@pytest.mark.parametrize(
    "module", ["click", "importlib.metadata", "hearsay.cli.simulate", "hearsay.sim.scenario.scenario"]
)
def test_a_signal_while_the_program_is_imported_is_one_line(module, number, word, code):
    signalled_at_its_import = (
        "import os, signal, sys\n"
        "class Signals:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {module!r}: os.kill(os.getpid(), {int(number)})\n"
        "sys.meta_path.insert(0, Signals())\n"
        "sys.argv = ['hearsay', 'simulate', '--show-scenario']\n"
        "from hearsay.cli.main import main\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", signalled_at_its_import], capture_output=True, text=True, preexec_fn=heed_signals
    )
    assert (done.returncode, done.stderr, done.stdout) == (code, f"hearsay: {word}\n", "")


@pytest.mark.parametrize(("number", "word", "code"), ENDS)
def test_a_simulation_that_is_signalled_leaves_a_readable_run_marked_incomplete(tmp_path, number, word, code):
    run = tmp_path / "run"

    def is_under_way(_error_file: Path, _temporary: Path) -> bool:
        return any(run.glob("trace/class=message/part-*.parquet"))

    done = signalled(["simulate", *LONG, "--out", run], number, is_under_way, tmp_path)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (code, f"hearsay: {word}")
    assert "(interrupted: figures are those of the time simulated)" in done.stdout
    assert json.loads((run / "manifest.json").read_text())["complete"] is False
    assert "deliver" in hearsay("trace", "show", run, "--event", "deliver", "--limit", 5).stdout


def test_a_signal_that_is_ignored_at_the_start_stays_ignored(tmp_path):
    """As under nohup: the end of the terminal does not end the run."""
    process = subprocess.Popen(
        [HEARSAY, "simulate", "--nodes", "300", "--messages", "30"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )  # fmt: skip
    assert process.stderr is not None
    process.stderr.readline()
    process.send_signal(signal.SIGHUP)
    shown, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "(interrupted" not in shown


SESSION_IS_MADE = pytest.param(spark_opens_a_session, id="as its session is made")
AT_WORK = pytest.param(has_printed("spark: reading"), id="at work")
JVM_STARTS = pytest.param(has_printed("starting Spark"), id="as the JVM starts")


@pytest.mark.thorough
@pytest.mark.parametrize("moment", [JVM_STARTS, SESSION_IS_MADE, AT_WORK])
def test_an_analysis_is_interrupted_in_one_line(run, tmp_path, moment):
    done = signalled(["analyze", run, "--out", tmp_path / "out"], signal.SIGINT, moment, tmp_path)
    own = [line for line in done.stderr.splitlines() if not line.startswith("spark: ")]
    assert (done.returncode, own, done.stdout) == (130, ["hearsay: interrupted"], "")


@pytest.mark.thorough
@pytest.mark.parametrize("moment", [SESSION_IS_MADE, pytest.param(has_printed(" runs done"), id="at work")])
def test_a_terminated_comparison_reports_the_runs_that_are_kept(tmp_path, moment):
    out = tmp_path / "out"
    arguments = ["compare", "r1", "--set", "router.degree=8", "--seeds", 200, "--out", out]
    small = ["--both", "network.nodes=20", "--both", "workload.messages=2"]
    done = signalled([*arguments, *small], signal.SIGTERM, moment, tmp_path)
    own = [line for line in done.stderr.splitlines() if not line.startswith("sweep: ")]
    assert (done.returncode, len(own), done.stdout) == (143, 1, "")
    assert own[0].startswith("hearsay: terminated; ")
    assert f"of 400 runs are kept in {out}; the same command continues from there" in own[0]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        ("simulate", "--help"),
        ("simulate", "--list-presets"),
        ("simulate", "--nodes", "20", "--messages", "1"),
        ("simulate", "--nodes", "20", "--messages", "1", "--json"),
        ("trace", "show", "RUN"),
        ("analyze", "RUN", "--format", "tracestat"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_cannot_be_written_is_a_failure_in_one_line(run, arguments, unbuffered):
    message = "hearsay: standard output cannot be written to: No space left on device"
    with open("/dev/full", "w") as full:
        given = [run if argument == "RUN" else argument for argument in arguments]
        done = hearsay(*given, stdout=full, env={**os.environ, "PYTHONUNBUFFERED": unbuffered})
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, message)
    assert done.stderr.count("hearsay:") == 1


def test_a_closed_pipe_ends_the_command_without_a_message(run):
    process = started("trace", "show", run, "--limit", 100_000, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    assert (process.stderr.read(), process.wait(60)) == ("", 1)


def test_characters_that_the_encoding_of_stdout_lacks_are_replaced():
    done = hearsay("simulate", "--nodes", 20, "--messages", 1, env={**os.environ, "PYTHONIOENCODING": "latin-1"})
    assert done.returncode == 0
    assert " ???" in done.stdout


def test_a_stderr_that_cannot_be_written_does_not_end_the_run():
    with open("/dev/full", "w") as full:
        done = hearsay("simulate", "--nodes", 20, "--messages", 1, stderr=full)
    assert done.returncode == 0
    assert "trace hash" in done.stdout
