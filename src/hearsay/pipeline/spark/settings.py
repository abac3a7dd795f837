"""The settings of Spark: the place where it runs, its cores and its memory, and its SQL options.

The SQL options depend on the number of trace rows. The queries do not depend on it. The rows of a small trace are one
partition (`pipeline.rows`), and the planning of queries takes most of the time. So joins and sums need no shuffle and
no broadcast, and rules of the optimizer that avoid reading gain nothing. A stage that Spark compiles to Java bytecode
is faster, but its compilation takes time.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from hearsay.user_errors import Failure, InvalidInput

_MEMORY_SHARE = 0.25
HEAP = "HEARSAY_SPARK_HEAP"
_HEAP_FORM = re.compile(r"([0-9]{1,9})([mMgG])")
_MIB = {"m": 1, "g": 1024}
_LEAST_HEAP_MIB = 512
"""Minimum heap; Spark itself needs at least 450 MiB."""
SMALL_ROWS = 5_000_000
"""Below this number of rows, one task is as fast as several."""
_COMPILED_ROWS = 250_000
"""Below this number of rows, the compilation of a query takes longer than it saves."""


class SparkUnavailable(Failure):
    """An error: no session of Spark is possible. Its message has the reason and, if possible, advice."""


class WrongSetting(InvalidInput, SparkUnavailable):
    """An error: a variable of the user's environment that configures Spark has an invalid value."""


@dataclass(frozen=True, slots=True)
class Where:
    """The place where Spark runs, and the user's settings for it (`conf`, pairs of name and value).

    `master` is the address of a cluster's master, and `remote` that of a Spark Connect server. If both are None,
    Spark is *embedded*: its JVM is a child of this process. The remote `local[N]` is a server on this machine that
    PySpark starts once and uses again in later commands.
    """

    master: str | None = None
    remote: str | None = None
    conf: tuple[tuple[str, str], ...] = ()

    @property
    def is_embedded(self) -> bool:
        return self.master is None and self.remote is None

    def __str__(self) -> str:
        """Return the place for messages, without secrets."""
        return address_without_secrets(self.remote or self.master or "embedded")


def spark_home() -> Path:
    """Return the folder of Spark that PySpark would use, without the slow import of PySpark.

    It is `SPARK_HOME` or the folder of PySpark; if neither exists, the working directory.
    """
    found = find_spec("pyspark")
    return Path(os.environ.get("SPARK_HOME") or (found and found.origin and Path(found.origin).parent) or "")


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def heap() -> str:
    """Return the size of the driver's heap, such as `4096m`.

    It is the value of the variable `HEARSAY_SPARK_HEAP` or, without it, a quarter of the memory, but at least 1 GiB
    and at most 16 GiB. Raise `WrongSetting` if the variable has an invalid value.
    """
    memory = _memory_mib()
    chosen = os.environ.get(HEAP)
    if not chosen:
        return f"{min(16_384, max(1024, int(memory * _MEMORY_SHARE)))}m"
    form = _HEAP_FORM.fullmatch(chosen)
    if form is None or not _LEAST_HEAP_MIB <= int(form[1]) * _MIB[form[2].lower()] <= memory:
        rule = f"must be a whole number with m or g (MiB or GiB), from {_LEAST_HEAP_MIB}m to this machine's {memory}m"
        raise WrongSetting(f"{HEAP} = {chosen!r:.40}: {rule}")
    return chosen


def _memory_mib() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    except (AttributeError, ValueError, OSError):
        return 8 << 10


def address_without_secrets(address: str) -> str:
    """Return a URL without its path and parameters (`;token=…`), and without name and password before the host.

    An address that is no URL, such as `local[4]`, is returned as it is.
    """
    scheme = re.match("(k8s://https?|[^:/]+)://", address)
    if scheme is None:
        return address
    return scheme[0] + re.split("[;?/]", address[scheme.end() :])[0].rpartition("@")[2]


def settings_for(rows: int, embedded: bool) -> dict[str, str]:
    """Return settings for an analysis of `rows` rows.

    For a large trace on a cluster or server (`embedded` is False), the number of partitions configured there stays.
    """
    small = rows < SMALL_ROWS
    compiled = rows >= _COMPILED_ROWS
    partitions = 1 if small else 2 * cores()
    return {
        **({"spark.sql.shuffle.partitions": str(partitions)} if small or embedded else {}),
        "spark.sql.autoBroadcastJoinThreshold": "-1" if small else "10MB",
        "spark.sql.join.preferSortMergeJoin": str(not small).lower(),
        "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
        "spark.sql.constraintPropagation.enabled": str(not small).lower(),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": str(not small).lower(),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.codegen.wholeStage": str(compiled).lower(),
        "spark.sql.codegen.factoryMode": "FALLBACK" if compiled else "NO_CODEGEN",
    }
