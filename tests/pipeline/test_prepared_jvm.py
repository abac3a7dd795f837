"""A JVM that starts with what another one loaded: it is made once, and nothing depends on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from hearsay.pipeline.spark import started_jvm
from hearsay.pipeline.spark.jvm import find_java, java_options, write_logging
from hearsay.trace.language.cache_places import user_cache

HEARSAY = (sys.executable, "-m", "hearsay")


def run(cache, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    environment["XDG_CACHE_HOME"] = str(cache)
    return subprocess.run([*HEARSAY, *arguments], capture_output=True, text=True, env=environment, timeout=550)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Of JVMs; machine code there is what others have compiled."""
    code = user_cache() / "hearsay" / "pipeline"
    if code.is_dir():
        shutil.copytree(code, tmp_path / "hearsay" / "pipeline")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "hearsay" / "jvm"


@pytest.mark.thorough
def test_it_is_made_once_and_sessions_use_it(cache):
    done = run(cache.parents[1], "spark", "prepare")
    assert done.returncode == 0, done.stderr
    kept = started_jvm.kept_file(find_java())
    assert kept is not None
    assert [str(file) for file in cache.iterdir()] == [str(kept)]
    assert done.stdout.startswith(str(kept))
    assert run(cache.parents[1], "spark", "prepare").stdout == f"there already: {kept}\n"
    assert loads_from_it(cache.parents[1])
    session = run(cache.parents[1], "spark", "doctor")
    assert (session.returncode, session.stderr) == (0, "")


def loads_from_it(work) -> bool:
    """Whether Spark's classes come from the file, as the JVM tells."""
    java = find_java()
    command = [*java_options(java, "512m", write_logging(work)), *started_jvm.options_with(java)]
    command[1:1] = ["-Xlog:class+load=info:stdout"]
    done = subprocess.run(
        [*command, "-Xlog:class+load=info:stdout", "org.apache.spark.deploy.SparkSubmit", "--version"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return "org.apache.spark.deploy.SparkSubmit source: shared objects file" in done.stdout


@pytest.mark.thorough
@pytest.mark.parametrize("content", [b"", b"no such file of a JVM" * 1000], ids=["empty", "other"])
def test_a_file_that_the_jvm_does_not_take_harms_nothing(cache, content):
    cache.mkdir(parents=True)
    (cache / started_jvm._name(find_java())).write_bytes(content)
    assert started_jvm.options_with(find_java())
    done = run(cache.parents[1], "spark", "doctor")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_that_is_used_is_kept_before_one_that_was_made_later(cache):
    java = find_java()
    used = cache / started_jvm._name(java)
    cache.mkdir(parents=True)
    for time, file in enumerate((used, cache / "later.aot", cache / "latest.aot"), 1):
        file.touch()
        os.utime(file, (time, time))
    assert str(used) in started_jvm.options_with(java)[1]
    started_jvm._forget_all_but_the_last(cache)
    assert {file.name for file in cache.iterdir()} == {used.name, "latest.aot"}


def test_only_the_last_ones_are_kept(tmp_path):
    for number in range(4):
        file = tmp_path / f"{number}.aot"
        file.touch()
        os.utime(file, (number, number))
    (tmp_path / "other").touch()
    for name in (".new-killed", ".new-at-work"):
        (tmp_path / name).mkdir()
    os.utime(tmp_path / ".new-killed", (0, 0))
    started_jvm._forget_all_but_the_last(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == [".new-at-work", "2.aot", "3.aot", "other"]
