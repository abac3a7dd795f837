"""The file of loaded classes, with which a JVM starts faster: it is made once, and sessions start without it, too."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from kills import environment
from spark_versions import needs_prepared_starts

from hearsay.pipeline.spark import session
from hearsay.pipeline.spark.java import file_to_make, find_java, kept_file, options_with, store_file
from hearsay.pipeline.spark.settings import Where
from hearsay.trace.language.places import user_cache


def run(cache, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = {**environment(), "XDG_CACHE_HOME": str(cache)}
    command = [sys.executable, "-m", "hearsay", "spark", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=variables, timeout=550)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Return a folder for files of loaded classes; it does not exist yet. Copy machine code from the user's cache."""
    code = user_cache() / "hearsay" / "pipeline"
    if code.is_dir():
        shutil.copytree(code, tmp_path / "hearsay" / "pipeline")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "hearsay" / "jvm"


@needs_prepared_starts
@pytest.mark.thorough
def test_the_file_is_made_once_and_sessions_use_it(cache):
    done = run(cache.parents[1], "prepare")
    assert done.returncode == 0, done.stderr
    kept = kept_file(find_java())
    assert kept is not None
    assert [file for file in cache.iterdir() if file.name != "home"] == [kept]
    assert done.stdout.startswith(str(kept))
    assert run(cache.parents[1], "prepare").stdout == f"there already: {kept}\n"
    shows = ("doctor", "--conf", "spark.driver.extraJavaOptions=-Xlog:class+load=info:stdout")
    session = run(cache.parents[1], *shows)
    assert (session.returncode, session.stderr) == (0, "")
    assert "org.apache.spark.deploy.SparkSubmit source: shared objects file" in session.stdout


@needs_prepared_starts
@pytest.mark.thorough
@pytest.mark.parametrize("content", [b"", b"no such file of a JVM" * 1000], ids=["empty", "other"])
def test_sessions_start_with_a_file_that_the_jvm_rejects(cache, content):
    file_to_make().write_bytes(content)
    assert options_with(find_java())
    done = run(cache.parents[1], "doctor")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_jvm_without_the_file_gets_no_option_of_a_new_java(cache):
    """Java 17 and 21 do not start with these options, because they do not know the log tag `aot`."""
    assert options_with(find_java()) == []
    assert "aot" not in session._settings_here(Where(), 1, 1)["spark.driver.defaultJavaOptions"]


@needs_prepared_starts
def test_another_installation_of_spark_needs_another_file(cache, tmp_path, monkeypatch):
    jar = tmp_path / "spark" / "jars" / "spark-core.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"")
    monkeypatch.setenv("SPARK_HOME", str(jar.parents[1]))
    file_to_make().write_bytes(b"")
    assert kept_file(find_java())
    os.utime(jar, (1, 1))
    assert kept_file(find_java()) is None


@needs_prepared_starts
def test_the_files_that_were_used_last_are_kept(cache):
    java, used = find_java(), file_to_make()
    for time, file in enumerate((used, cache / "later.aot", cache / "latest.aot"), 1):
        file.touch()
        os.utime(file, (time, time))
    assert f"-XX:AOTCache={used}" in options_with(java)
    (cache / "made").touch()
    os.utime(cache / "made", (4, 4))
    store_file(cache / "made", cache / "new.aot")
    assert {file.name for file in cache.iterdir()} == {used.name, "new.aot"}
