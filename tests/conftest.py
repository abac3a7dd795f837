"""What all tests share: Spark, a session of this process and daemons on loopback, each started once; and SIGINT."""

from __future__ import annotations

import signal

import pytest
from standalone import Cluster, free_port

from hearsay.pipeline.spark.session import Where, spark_session


def pytest_configure() -> None:
    """Who starts the tests in the background has them ignore SIGINT, and every process they start inherits that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def spark():
    with spark_session(Where(), 0, lambda _: None) as session:
        yield session


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    started = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="session")
def master(cluster) -> str:
    """A standalone master with two workers of one core each."""
    url = cluster.start_master()
    for number in (1, 2):
        cluster.start_worker(f"worker{number}", url)
    return url


@pytest.fixture(scope="session")
def connect(cluster) -> str:
    """A Spark Connect server."""
    port = free_port()
    daemon = cluster.start(
        "connect", "org.apache.spark.deploy.SparkSubmit", "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[2]",
        "--conf", f"spark.connect.grpc.binding.port={port}", "--conf", "spark.connect.grpc.binding.address=127.0.0.1",
        "--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2",
        "--conf", f"spark.sql.warehouse.dir={cluster.folder}/warehouse", "spark-internal", heap="1g",
    )  # fmt: skip
    daemon.wait_until_it_says(f"server started at: 127.0.0.1:{port}")
    return f"sc://127.0.0.1:{port}"
