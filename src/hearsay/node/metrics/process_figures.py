"""What the system says of this process, under the names that all Prometheus clients use.

Memory, files and the time of the start are read from Linux's `/proc`; elsewhere they are left out.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from time import process_time

from hearsay.node.metrics.openmetrics import Family, Kind

_PROC = Path("/proc")


def process_families() -> Iterator[Family]:
    yield Family(
        "process_cpu_seconds", Kind.COUNTER, "CPU time of this process, its threads and the kernel for them"
    ).add(process_time())
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        yield Family("process_max_fds", Kind.GAUGE, "Files that this process may have open").add(soft)
    try:
        fields = (_PROC / "self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        booted = next(
            line for line in (_PROC / "stat").read_text(encoding="ascii").splitlines() if line.startswith("btime ")
        )
        opened = len(os.listdir(_PROC / "self/fd"))
    except (OSError, StopIteration):
        return
    ticks = os.sysconf("SC_CLK_TCK")
    yield Family("process_open_fds", Kind.GAUGE, "Files that this process has open").add(opened)
    yield Family("process_start_time_seconds", Kind.GAUGE, "When this process started, in Unix time").add(
        int(booted.split()[1]) + int(fields[19]) / ticks
    )
    yield Family("process_virtual_memory_bytes", Kind.GAUGE, "Address space of this process").add(int(fields[20]))
    yield Family("process_resident_memory_bytes", Kind.GAUGE, "Memory of this process that is in RAM").add(
        int(fields[21]) * resource.getpagesize()
    )
