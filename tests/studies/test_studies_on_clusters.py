"""Equal tables, to the last bit, wherever the runs are made: here, on a standalone cluster, over Spark Connect."""

from __future__ import annotations

import pytest
from small_study import assert_equal_tables, hearsay, swept, table, write_study
from standalone import free_port

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module")
def embedded(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("embedded")
    swept(spark, write_study(folder), folder / "out")
    return folder / "out"


def test_standalone_cluster(master, embedded, tmp_path):
    """The workers' directories and Python path have nothing of this program: it comes with the job."""
    assert_equal_sweep(embedded, tmp_path, "--master", master)


def test_spark_connect(connect, embedded, tmp_path):
    assert_equal_sweep(embedded, tmp_path, "--remote", connect)


def test_a_cluster_that_is_not_there_is_one_line(tmp_path):
    done = hearsay(
        "sweep", write_study(tmp_path), "--out", tmp_path / "out", "--master", f"spark://127.0.0.1:{free_port()}"
    )
    assert done.returncode == 1
    assert "no session at spark://" in done.stderr
    assert "0 of 12 runs are kept" in done.stderr


def assert_equal_sweep(embedded, tmp_path, *where: str) -> None:
    done = hearsay("sweep", write_study(tmp_path), "--out", tmp_path / "out", *where)
    assert done.returncode == 0, done.stderr
    assert_equal_tables(tmp_path / "out", embedded)
    assert table(tmp_path / "out", "resources").column("engine").null_count == 0
