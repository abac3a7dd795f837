"""Where Spark runs, and its share of this machine's cores and memory."""

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


class SparkUnavailable(Failure):
    """No session is possible. The message says why, and what to do."""


class WrongSetting(InvalidInput, SparkUnavailable):
    """A setting of Spark in the user's environment cannot be used."""


@dataclass(frozen=True, slots=True)
class Where:
    """Where Spark runs: embedded (both None), a cluster's master, or a Spark Connect server; and its settings.

    The remote `local[N]` is a server on this machine that PySpark starts once and keeps.
    """

    master: str | None = None
    remote: str | None = None
    conf: tuple[tuple[str, str], ...] = ()

    @property
    def is_embedded(self) -> bool:
        return self.master is None and self.remote is None

    def __str__(self) -> str:
        """Return where Spark runs, for messages, without secrets."""
        return shown(self.remote or self.master or "embedded")


def spark_home() -> Path:
    """Return the folder of Spark, as PySpark finds it, without the slow import of PySpark."""
    found = find_spec("pyspark")
    return Path(os.environ.get("SPARK_HOME") or (found and found.origin and Path(found.origin).parent) or "")


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def heap() -> str:
    """Return the driver's heap, such as `4096m`: `HEARSAY_SPARK_HEAP`, or a quarter of the memory, from 1 to 16 GiB.

    Raises `WrongSetting` if the variable cannot be used.
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


def shown(address: str) -> str:
    """Return an address without its parameters (`;token=…`), and without name and password before the host."""
    scheme, separator, rest = address.partition("://")
    if not separator:
        return address
    return f"{scheme}://{re.split('[;?/]', rest)[0].rpartition('@')[2]}"
