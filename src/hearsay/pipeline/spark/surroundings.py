"""In what a kept Spark session and the command that wants it must be the same: whatever its work depends on.

Rules:

* Its tasks run the same code on the same Python, and read the same environment.
* They may do what the command may, no more and no less: users and groups, the mask of new files, capabilities and
  filters of the kernel, what of files, processes and networks is seen.
* They are held to what the command is held to: cores, niceness, memory, time, the batch job that it is part of.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import sysconfig
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from hearsay.pipeline.spark.place import cores
from hearsay.version import __version__

KEEP = "HEARSAY_SPARK_KEEP"
_READ_BY_SPARK = (
    "SPARK_", "PYSPARK_", "PYTHON", "HEARSAY_", "JAVA_", "JDK_", "HADOOP_", "XDG_CACHE_HOME", "HOME", "LD_", "NUMBA_",
    "ARROW_", "OMP_", "MALLOC_", "OPENBLAS_", "TMPDIR",
)  # fmt: skip
_BATCH_JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID")
_NOT_COMPARED = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "HEARSAY_DEBUG", KEEP)
_PACKAGE = Path(__file__).parents[2]
_NAMESPACES = ("cgroup", "mnt", "net", "pid", "user")
_FENCES = ("CapEff:", "NoNewPrivs:", "Seccomp:")
_LIMITS = (
    resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_DATA, resource.RLIMIT_FSIZE, resource.RLIMIT_RSS,
)  # fmt: skip
_LIMITS_OF_GROUPS = ("cpu.max", "memory.high", "memory.max")
_CONTROL_GROUPS = Path("/sys/fs/cgroup")


def surroundings() -> dict[str, str]:
    """A digest of each of them, by what it is called."""
    compared = {
        "code": _code(),
        "Python": [os.path.realpath(sys.prefix), sys.version, sys.getfilesystemencoding(), _installed()],
        "environment": _environment(),
        "rights": _rights(),
        "limits": [cores(), _cores(), _limits(), _limits_of_the_group()],
    }
    return {name: blake2b(json.dumps(value).encode(), digest_size=16).hexdigest() for name, value in compared.items()}


def _code() -> object:
    files = [
        (str(file.relative_to(_PACKAGE)), found.st_mtime_ns, found.st_size)
        for file in sorted(_PACKAGE.rglob("*.py"))
        if (found := file.stat())
    ]
    return [__version__, str(_PACKAGE), files]


def _installed() -> object:
    """What is installed, as far as the folder of packages tells by its time."""
    places = {os.path.realpath(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
    return [(place, os.stat(place).st_mtime_ns) for place in sorted(places) if os.path.isdir(place)]


def _environment() -> object:
    return sorted(
        (name, value)
        for name, value in os.environ.items()
        if (name.startswith(_READ_BY_SPARK) or name in _BATCH_JOBS) and name not in _NOT_COMPARED
    )


def _rights() -> object:
    mask = os.umask(0o077)
    os.umask(mask)
    seen = [_link(f"/proc/self/ns/{name}") for name in _NAMESPACES]
    fences = [line for line in _text(Path("/proc/self/status")).splitlines() if line.startswith(_FENCES)]
    root = os.stat(os.sep)
    users = [os.geteuid(), os.getegid(), sorted(os.getgroups())]
    return [users, mask, seen, root.st_dev, root.st_ino, fences, _text(Path("/proc/self/attr/current"))]


def _cores() -> object:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def _limits() -> object:
    policy = os.sched_getscheduler(0) if hasattr(os, "sched_getscheduler") else None
    return [os.getpriority(os.PRIO_PROCESS, 0), policy, [resource.getrlimit(limit) for limit in _LIMITS]]


def _limits_of_the_group() -> object:
    """Of the control group, from the outermost in: where a terminal has a group of its own, that says nothing yet."""
    line = next((line for line in _text(Path("/proc/self/cgroup")).splitlines() if line.startswith("0::")), "")
    group = _CONTROL_GROUPS / line.removeprefix("0::").lstrip("/")
    told = [_text(place / name) for place in (*reversed(group.parents), group) for name in _LIMITS_OF_GROUPS]
    return [limit for limit in told if limit and not limit.startswith("max")]


def _link(path: str) -> str:
    with suppress(OSError):
        return os.readlink(path)
    return ""


def _text(file: Path) -> str:
    with suppress(OSError, UnicodeDecodeError):
        return file.read_text(encoding="utf-8")
    return ""
