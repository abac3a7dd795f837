"""Settings of Spark from `--conf` and from `spark-defaults.conf` in `SPARK_CONF_DIR`, and their precedence."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from commands import hearsay
from kills import environment

from hearsay.pipeline.spark import session
from hearsay.pipeline.spark.session import zip_package
from hearsay.pipeline.spark.settings import Where
from hearsay.version import __version__

PRINT_SETTINGS = """
import json, sys
from hearsay.pipeline.spark.settings import Where
from hearsay.pipeline.spark.session import spark_session
with spark_session(Where(conf=tuple(json.loads(sys.argv[1]).items())), 1, lambda text: None) as spark:
    print(json.dumps(dict(spark.sparkContext.getConf().getAll())))
"""
NAMES = ("spark.ui.enabled", "spark.sql.shuffle.partitions", "spark.buffer.pageSize", "spark.authenticate")


def settings(conf: dict[str, str], **variables: str) -> dict[str, str]:
    """Return all settings of a session that starts with these settings and environment variables."""
    program = [sys.executable, "-c", PRINT_SETTINGS, json.dumps(conf)]
    done = subprocess.run(program, capture_output=True, text=True, env=environment() | variables, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.mark.thorough
def test_options_replace_settings_of_the_file_and_the_file_replaces_defaults(tmp_path):
    (tmp_path / "spark-defaults.conf").write_text(
        "# the user's\nspark.ui.enabled=true\nspark.sql.shuffle.partitions 7\nspark.buffer.pageSize: 1m\n"
        "spark.ui.port 0\n"
    )
    given = settings({"spark.sql.shuffle.partitions": "9"}, SPARK_CONF_DIR=str(tmp_path))
    assert [given[name] for name in NAMES] == ["true", "9", "1m", "true"]


@pytest.mark.thorough
def test_an_analysis_writes_an_event_log(small_run, tmp_path):
    (tmp_path / "events").mkdir()
    log = {"enabled": "true", "dir": f"file:{tmp_path}/events", "compress": "false"}
    conf = [word for name, value in log.items() for word in ("--conf", f"spark.eventLog.{name}={value}")]
    done = hearsay("analyze", small_run, "--out", tmp_path / "out", *conf, new_process=True, env=environment())
    assert done.returncode == 0, done.stderr
    assert all(line.startswith("spark: ") for line in done.stderr.splitlines())
    (events,) = (tmp_path / "events").rglob("events_*")
    assert "SparkListenerJobEnd" in events.read_text()


@pytest.mark.parametrize(
    ("master", "host"), [("spark://10.0.0.7:7077", None), ("spark://127.0.0.1:7077", "127.0.0.1"), ("yarn", None)]
)
def test_workers_on_other_machines_reach_the_driver(monkeypatch, master, host):
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    assert session._settings_here(Where(master), 1, 1).get("spark.driver.host") == host
    assert os.environ.get("SPARK_LOCAL_IP") == host


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("ui.enabled=true", "--conf ui.enabled: must be spark.NAME=VALUE"),
        ("spark.ui.enabled", "--conf spark.ui.enabled: write it as spark.NAME=VALUE"),
        ("spark.master=yarn", "--conf spark.master: use --master or --remote"),
    ],
)
def test_a_wrong_setting_is_reported_in_one_line(setting, words):
    done = hearsay("analyze", "nowhere", "--conf", setting)
    assert (done.returncode, done.stderr) == (2, f"hearsay: {words}\n")


def test_the_package_is_imported_from_its_zip(tmp_path):
    archive = zip_package(tmp_path)
    code = "import hearsay.core.registry, hearsay.version; print(hearsay.version.__version__, hearsay.__file__)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env={"PYTHONPATH": str(archive)}, capture_output=True, text=True
    )
    assert done.stdout.split() == [__version__, f"{archive}/hearsay/__init__.py"], done.stderr
