"""Shared by all tests: their order, a check for leftovers, and Spark with its daemons, which start once."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import profiles
import pytest
from prepared_commands import end_server
from standalone import Cluster, free_port
from xdist.remote import Producer

import leftovers
from hearsay.pipeline.spark.session import spark_session
from hearsay.pipeline.spark.settings import Where
from schedule import WholeFiles, rank

pytest_plugins = ["chromium"]
profiles.register()


def pytest_configure() -> None:
    """Restore the handling of SIGINT: tests in the background ignore it, and started processes would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ[leftovers.MARK] = leftovers.own_mark()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # libraries count their objects at the end
    end_server()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: rank(item.nodeid))


def pytest_collection_finish() -> None:
    collect_garbage()


def collect_garbage() -> None:
    """Exempt objects that exist now from later collections: most of them stay until the end."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> WholeFiles:
    config.option.loadscopereorder = False
    return WholeFiles(config, log)


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Fail a module that leaves a process or an open port behind."""
    if sys.platform != "linux":
        yield
        return
    before = leftovers.ports()
    yield
    collect_garbage()
    left = [*leftovers.processes(), *(f"port {port}" for port in sorted(leftovers.ports() - before))]
    assert not left, "left behind:\n" + "\n".join(left)


@pytest.fixture(scope="session")
def spark():
    with ExitStack() as stack:
        with leftovers.for_the_whole_session():
            session = stack.enter_context(spark_session(Where(), 0, lambda _: None))
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
    """Return the URL of a standalone Spark master with a worker of one core."""
    with leftovers.for_the_whole_session():
        url = cluster.start_master()
        cluster.start_worker("worker1", url)
    return url


@pytest.fixture(scope="session")
def master_of_two(cluster, master) -> str:
    """Return the URL of the same master, after a second worker has started."""
    with leftovers.for_the_whole_session():
        cluster.start_worker("worker2", master)
    return master


@pytest.fixture(scope="session")
def connect(cluster) -> str:
    """Return the URL of a Spark Connect server."""
    port = free_port()
    with leftovers.for_the_whole_session():
        daemon = cluster.start(
            "connect", "org.apache.spark.deploy.SparkSubmit", "--class",
            "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[2]",
            "--conf", f"spark.connect.grpc.binding.port={port}",
            "--conf", "spark.connect.grpc.binding.address=127.0.0.1",
            "--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2",
            "--conf", f"spark.sql.warehouse.dir={cluster.folder}/warehouse",
            "--driver-memory", "1g", "--driver-java-options", "-XX:TieredStopAtLevel=1", "spark-internal",
        )  # fmt: skip
        daemon.wait_until_it_says(f"server started at: 127.0.0.1:{port}")
    return f"sc://127.0.0.1:{port}"
