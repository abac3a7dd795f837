"""`java_home()`: PySpark's own session runs with this Java, and other users cannot replace its launcher."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress

import pytest
from kills import environment

from hearsay.pipeline import java_home

PROGRAM = """
import os, sys
import hearsay.pipeline
os.environ["JAVA_HOME"] = str(hearsay.pipeline.java_home())
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
trace = hearsay.pipeline.read(spark, sys.argv[1:])
row = hearsay.pipeline.Tables(trace)["memberships"].groupBy("run").count().collect()[0]
print(row["run"], row["count"])
spark.stop()
"""


@pytest.mark.thorough
def test_a_plain_session_computes_a_table(small_run):
    variables = {name: value for name, value in environment().items() if name != "JAVA_HOME"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, small_run], env=variables, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    name, members = done.stdout.split()[-2:]
    assert name == small_run.name
    assert int(members) > 0


def test_the_launcher_leaves_out_two_flags_and_keeps_all_others(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    home = java_home()
    assert home.is_relative_to(tmp_path)
    left_out = ["--add-modules=jdk.incubator.vector", "--add-opens=java.base/sun.security.action=ALL-UNNAMED"]
    flags = [*left_out, "-Dname=a 'quoted' value", "-XshowSettings:all"]
    done = subprocess.run([home / "bin" / "java", *flags, "-version"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "name = a 'quoted' value" in done.stderr
    assert "WARNING" not in done.stderr
    before = os.stat(home / "bin" / "java").st_ino
    assert java_home() == home
    assert os.stat(home / "bin" / "java").st_ino == before


def test_a_launcher_of_another_java_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    launcher = java_home() / "bin" / "java"
    wanted = launcher.read_text()
    launcher.write_text("#!/bin/sh\nexit 1\n")
    assert (java_home() / "bin" / "java").read_text() == wanted


@pytest.mark.parametrize("problem", ["others may enter it", "another user's", "a link"])
def test_a_launcher_that_others_may_have_written_is_not_used(tmp_path, monkeypatch, problem):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = java_home() / "bin"
    assert folder.is_relative_to(tmp_path / "cache")
    match problem:
        case "others may enter it":
            folder.chmod(0o770)
        case "another user's":
            mine = os.getuid()
            monkeypatch.setattr(os, "getuid", lambda: mine + 1)
        case _:
            folder.rename(tmp_path / "elsewhere")
            folder.symlink_to(tmp_path / "elsewhere")
    with suppress(OSError):
        assert not java_home().is_relative_to(tmp_path / "cache")
