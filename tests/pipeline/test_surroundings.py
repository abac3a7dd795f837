"""In what a command and a kept session must be the same: everything that its work depends on, and nothing else."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable

import pytest

PRINT = "import json; from hearsay.pipeline.spark.surroundings import surroundings; print(json.dumps(surroundings()))"


def surroundings(become: Callable[[], object] | None = None, **more: str) -> dict[str, str]:
    """Those of another process."""
    done = subprocess.run(
        [sys.executable, "-c", PRINT], capture_output=True, text=True, check=True, preexec_fn=become,
        env={**os.environ, **more},
    )  # fmt: skip
    return json.loads(done.stdout)


def different(become: Callable[[], object] | None = None, **more: str) -> set[str]:
    plain, other = surroundings(), surroundings(become, **more)
    assert plain.keys() == other.keys() == {"code", "Python", "environment", "rights", "limits"}
    return {name for name, digest in plain.items() if other[name] != digest}


def test_what_nothing_depends_on_may_differ():
    assert (
        different(lambda: os.chdir(os.sep), LANG="C", TERM="dumb", HEARSAY_SPARK_KEEP="3", HEARSAY_DEBUG="1") == set()
    )


@pytest.mark.parametrize(
    "name", ["HEARSAY_SPARK_HEAP", "PYTHONHASHSEED", "TMPDIR", "NUMBA_NUM_THREADS", "SLURM_JOB_ID"]
)
def test_the_environment_of_tasks_is_compared(name):
    assert different(**{name: "7"}) == {"environment"}


def test_rights_are_compared():
    assert different(lambda: os.umask(0o027 if os.umask(0) != 0o027 else 0o077)) == {"rights"}


@pytest.mark.skipif(os.getuid() != 0, reason="only root has other groups for the asking")
def test_groups_are_compared():
    assert different(lambda: os.setgroups([4711])) == {"rights"}


@pytest.mark.skipif(sys.platform != "linux", reason="the calls are Linux's")
def test_limits_are_compared():
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    assert different(lambda: os.nice(1)) == {"limits"}
    assert different(lambda: os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))) == {"limits"}
    assert different(lambda: resource.setrlimit(resource.RLIMIT_AS, (8 << 30, most))) == {"limits"}


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="not told here")
def test_as_many_other_cores_are_other_cores():
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("there is one core")
    first, second = (surroundings(lambda core=core: os.sched_setaffinity(0, {core})) for core in cores[:2])
    assert first["limits"] != second["limits"]
    assert {**first, "limits": ""} == {**second, "limits": ""}
