"""A Spark session that is kept for the next commands: who gets it, who does not, and what if it vanishes."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from commands import started
from growing_run import assert_same_tables
from kept import Kept, kept_session
from kills import JVM, LOOK_AGAIN_S, ends_within, find, gone

from hearsay.pipeline.spark.lender import MOST_AT_ONCE

WITH_ANOTHER_SECRET = """
from dataclasses import replace
from hearsay.pipeline.spark.borrowed import borrowed_session
from hearsay.pipeline.spark.kept_session import borrow
lent = borrow(print)
try:
    with borrowed_session(replace(lent, secret="x" * len(lent.secret))) as session:
        print(session.range(3).count())
except Exception:
    print("nothing")
"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    with kept_session(tmp_path_factory.mktemp("of_a_module") / "kept") as kept:
        yield kept
    assert kept.run("spark", "status").stdout == "no session is kept\n"


@pytest.fixture
def own(tmp_path):
    folder = tmp_path / "kept"
    folder.mkdir()
    return Kept(folder)


def test_an_analysis_takes_it_and_it_stays(kept, two_runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in (1, 2):
        done = kept.run("analyze", two_runs["topics"], "--out", Path("out"))
        assert done.returncode == 0, done.stderr
        assert "starting Spark" not in done.stderr
        assert_same_tables(two_runs["topics"], tmp_path / "out" / "topics")
        assert kept.status()["served"] == number
    again = kept.run("spark", "keep")
    assert again.stdout.startswith("there already: kept for 15 min (process ")
    assert kept.socket.stat().st_mode & 0o077 == 0


def test_other_surroundings_do_not_get_it(kept):
    wanted = ["the kept session is not used: it differs in environment", "0"]
    assert kept.borrow(HEARSAY_SPARK_HEAP="600m") == wanted
    assert kept.borrow(PYTHONHASHSEED="7") == wanted
    assert kept.borrow(HEARSAY_SPARK_KEEP="0") == ["0"]
    assert kept.borrow(HEARSAY_DEBUG="1", LANG="C") == ["1"]


def test_another_secret_opens_nothing(kept):
    assert kept.said_by(WITH_ANOTHER_SECRET) == ["nothing"]
    assert kept.borrow() == ["1"]


def test_no_more_than_so_many_commands_have_it_at_once(kept):
    told = kept.borrow(MOST_AT_ONCE + 1)
    assert told == [f"the kept session is not used: {MOST_AT_ONCE} commands use it", str(MOST_AT_ONCE)]
    while kept.status()["now"]:
        ends_within(os.getpid(), LOOK_AGAIN_S)
    assert kept.borrow() == ["1"]


@pytest.mark.parametrize("line", [b"\n", b"[]\n", b"{}\n", b"\xff\xff\n", b'{"wants": 1}\n', b"x" * 200_000])
def test_what_it_does_not_understand_ends_the_connection_alone(kept, line):
    before = kept.status()["served"]
    assert kept.told(line) == b""
    assert kept.status()["served"] == before


def test_beside_a_folder_that_others_may_enter_none_is_kept(own):
    own.socket.parent.mkdir()
    own.socket.parent.chmod(0o755)
    problem = f"{own.socket.parent} is not a folder of this user alone (mode 700)"
    assert own.borrow() == [f"no kept session is used: {problem}", "0"]
    done = own.run("spark", "keep")
    assert (done.returncode, done.stderr) == (1, f"hearsay: no session is kept: {problem}\n")


@pytest.mark.parametrize("minutes", ["ten", "-1", "nan", "1441"])
def test_minutes_that_are_none_are_said(own, small_run, minutes):
    done = own.run("analyze", small_run, HEARSAY_SPARK_KEEP=minutes)
    rule = "must be a number of minutes from 0 (never) to 1440"
    assert (done.returncode, done.stderr) == (2, f"hearsay: HEARSAY_SPARK_KEEP = '{minutes}': {rule}\n")


@pytest.mark.thorough
def test_when_it_vanishes_the_command_does_its_work_with_one_of_its_own(own, two_runs, tmp_path):
    keeper = own.keep()
    jvm = find(keeper, JVM)
    assert jvm is not None
    os.kill(jvm, signal.SIGSTOP)  # so that the command is surely in the middle
    command = started(
        "analyze", two_runs["topics"], "--out", tmp_path / "out", env=own.environment, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, afresh=True,
    )  # fmt: skip
    while not own.status()["now"]:
        ends_within(keeper, LOOK_AGAIN_S)
    for pid in (keeper, jvm):
        os.kill(pid, signal.SIGKILL)
        gone(pid)
    _, told = command.communicate(timeout=300)
    assert command.wait() == 0, told
    assert "spark: the kept Spark session has vanished; once more with one of this command's own\n" in told
    assert_same_tables(two_runs["topics"], tmp_path / "out" / "topics")


@pytest.mark.thorough
@pytest.mark.parametrize("end", ["unused", "without its JVM", "without its socket"])
def test_it_ends_by_itself(own, end):
    keeper = own.keep("--minutes", "0.1" if end == "unused" else "5")
    jvm = find(keeper, JVM)
    assert jvm is not None
    if end == "without its JVM":
        os.kill(jvm, signal.SIGKILL)
    elif end == "without its socket":
        own.socket.unlink()
    gone(keeper)
    gone(jvm)
    assert not own.socket.exists()


@pytest.mark.thorough
def test_the_environment_can_ask_for_one(own, small_run, tmp_path):
    done = own.run("analyze", small_run, "--out", tmp_path, HEARSAY_SPARK_KEEP="0.1")
    assert done.returncode == 0, done.stderr
    assert "spark: starting a Spark session that is kept for 0.1 minutes\n" in done.stderr
    assert own.status()["served"] == 1
    gone(own.status()["pid"])
