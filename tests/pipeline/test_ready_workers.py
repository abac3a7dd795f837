"""Python workers that have their imports done when the first task comes, and what happens without them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from kills import environment

PROGRAM = """
import os, pyarrow, sys
from hearsay.own_process import claim_process
claim_process()
from hearsay.pipeline.spark import session

imports = ["no_such_module", "wave", "hearsay.trace.folder.arrow"]
session.start_ahead(session.Where(), 0, imports)
if "killed" in sys.argv:
    session._jvm._workers.kill()
with session.spark_session(session.Where(), 0, lambda text: None, imports=imports) as spark:
    assert not {"wave", "pandas"} & sys.modules.keys()
    numbers = spark.sparkContext.parallelize(range(8), 2)
    print(set(numbers.map(lambda number: ("wave" in sys.modules, os.environ["OMP_NUM_THREADS"])).collect()))
    print(set(numbers.map(lambda number: (pyarrow.scalar(number), "pandas" in sys.modules)[1]).collect()))
"""
"""Tasks tell whether their worker had imported what nothing else does, and whether pyarrow imports pandas there."""


def told_by(*arguments: str, **more: str) -> str:
    program = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(program, capture_output=True, text=True, env={**environment(), **more}, timeout=300)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.strip()


def test_workers_have_the_imports_of_their_tasks_done(tmp_path):
    assert told_by(TMPDIR=str(tmp_path)) == "{(True, '1')}\n{False}"
    assert list(tmp_path.glob("hearsay-spark-*")) == []


@pytest.mark.thorough
@pytest.mark.parametrize("where", ["killed", "in a folder whose name is too long for a socket"])
def test_without_them_sparks_own_workers_do_the_tasks(tmp_path, where):
    folder = tmp_path / (where * 3)
    folder.mkdir()
    assert told_by(where, TMPDIR=str(folder)) == "{(False, '1')}\n{True}"
    assert list(folder.glob("hearsay-spark-*")) == []
