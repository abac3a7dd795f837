"""PySpark in a JVM that another process keeps: a driver of its own, which leaves the context as it was."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from hearsay.pipeline.spark.gateway_log import quiet_the_gateway, say_nothing
from hearsay.pipeline.spark.jvm import python_of_workers
from hearsay.pipeline.spark.kept_session import KeptSessionGone, Lent


@contextmanager
def borrowed_session(lent: Lent) -> Generator[Any]:
    """A session in the JVM that is kept. Its jobs end with the command."""
    before = _environment_of_spark()
    os.environ.update(
        PYSPARK_GATEWAY_PORT=str(lent.port), PYSPARK_GATEWAY_SECRET=lent.secret, PYSPARK_PYTHON=python_of_workers()
    )
    try:
        quiet_the_gateway()
        with ThreadPoolExecutor(1) as thread:  # on the main thread PySpark would take Ctrl-C for itself
            session = thread.submit(_session).result()
        session.sparkContext.setJobGroup(lent.group, "")
        yield session
    except Exception:
        if lent.has_gone():
            raise KeptSessionGone("the kept Spark session has vanished") from None
        raise
    finally:
        _forget()
        for name in _environment_of_spark():
            del os.environ[name]
        os.environ.update(before)
        lent.close()


def _session() -> Any:
    from pyspark.conf import SparkConf
    from pyspark.core.context import SparkContext
    from pyspark.sql import SparkSession

    gateway: Any = _untyped(import_module("pyspark.java_gateway")).launch_gateway()
    there = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    java: Any = gateway.jvm.JavaSparkContext.fromSparkContext(there)
    context: Any = SparkContext(gateway=gateway, jsc=java, conf=SparkConf(_jconf=there.getConf()))
    context._accumulatorServer.handle_error = say_nothing
    return SparkSession(context)


def _environment_of_spark() -> dict[str, str]:
    """PySpark adds to it, and what is borrowed next must find it as it was."""
    return {name: value for name, value in os.environ.items() if name.startswith(("SPARK_", "PYSPARK_"))}


def is_pyspark_in_use() -> bool:
    """Whether this process has a JVM already, of ours or of a program that uses Spark itself."""
    pyspark = sys.modules.get("pyspark.core.context")
    return pyspark is not None and pyspark.SparkContext._gateway is not None


def _forget() -> None:
    """So that a session of our own can follow: PySpark keeps its gateway and its context for life."""
    from pyspark.core.context import SparkContext
    from pyspark.sql import SparkSession

    context, sessions = _untyped(SparkContext), _untyped(SparkSession)
    with suppress(Exception):
        context._active_spark_context._accumulatorServer.shutdown()
    with suppress(Exception):
        context._gateway.close()
    context._gateway = context._jvm = context._active_spark_context = None
    sessions._instantiatedSession = sessions._activeSession = None


def _untyped(thing: Any) -> Any:
    return thing
