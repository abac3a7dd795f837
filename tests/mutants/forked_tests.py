"""Tests run against copies of the package, each time in a fork of a process that has its imports done.

Rules:

* The process that forks has never imported the package or a test: each fork imports them from the copy it is given.
* A fork has only the thread that called it, so no import may start a thread.
* A fork reports pytest's outcome of each test. A fork that does not end in time is killed with all processes that it
  started; its reports until then count.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from time import monotonic
from traceback import print_exc
from typing import NoReturn, TextIO

import pytest

TESTS = Path(__file__).parents[1]
PREPARED = (
    "asyncio", "click.testing", "cryptography.hazmat.primitives.asymmetric.rsa",
    "cryptography.hazmat.primitives.ciphers.aead", "cryptography.hazmat.primitives.serialization",
    "cryptography.x509", "google.protobuf.descriptor_pb2", "hypothesis.extra.numpy", "hypothesis.stateful",
    "nacl.signing", "numpy", "prometheus_client.openmetrics.parser", "pyarrow.dataset", "pyarrow.parquet", "pydantic",
    "xdist.scheduler",
)  # fmt: skip
"""Modules of other packages that the tests and the package import. A missing name only makes forks slower."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
OPTIONS = (
    "-q", "-rfE", "--tb=line", "--disable-warnings", "-p", "no:cacheprovider", "-p", "no:unraisableexception",
    "--hypothesis-profile=mutants",
)  # fmt: skip
TURNS = 600
"""Turns of the event loop for which a test waits for a condition (`tests/node/waiting.py`): six seconds, or more on
a busy machine.
"""
FORK = get_context("fork")
TIMED_OUT = "timed out"
SOUND = "sound"
"""Name of the unchanged copy."""


@dataclass(frozen=True)
class Task:
    """A fork's work: tests by pytest's ids, and the changed files of the package with their texts."""

    name: str
    tests: tuple[str, ...]
    limit_s: float
    changed: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass
class Report:
    code: int | None = None
    """pytest's exit code; None if the fork was killed before its end."""
    failed: set[str] = field(default_factory=set[str])
    passed: set[str] = field(default_factory=set[str])
    timed_out: set[str] = field(default_factory=set[str])
    """Failed tests that ended with a `TimeoutError`, because a condition for which they waited did not come true."""
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    copy: str = ""
    """Name of the folder with the tested package."""
    said: str = ""
    took_s: float = 0


def prepare() -> None:
    os.environ.update(ONE_THREAD)
    for name in PREPARED:
        import_module(name)
    assert "hearsay" not in sys.modules
    if sys.platform == "linux":
        assert len(os.listdir("/proc/self/task")) == 1, "an import has started a thread"
    gc.collect()
    gc.freeze()


class Forks:
    """Forks of this process, `jobs` at a time. `folder` contains the unchanged package, and the forks write there."""

    def __init__(self, folder: Path, jobs: int) -> None:
        self._folder = folder
        self._jobs = jobs

    def run(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Report]]:
        """Yield each task with its report when its fork ends."""
        waiting = deque(tasks)
        running: dict[int, tuple[Task, ForkProcess, float]] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self._jobs:
                    task = waiting.popleft()
                    process = FORK.Process(target=_run_fork, args=(task, self._folder))
                    process.start()
                    running[process.sentinel] = task, process, monotonic()
                next_limit = min(began + task.limit_s for task, _, began in running.values())
                wait(list(running), max(0, next_limit - monotonic()))
                for sentinel, (task, process, began) in list(running.items()):
                    if not process.is_alive() or monotonic() - began >= task.limit_s:
                        _end(process)
                        del running[sentinel]
                        yield task, _report(task, self._folder, monotonic() - began)
        finally:
            for _, process, _ in running.values():
                _end(process)


def _end(process: ForkProcess) -> None:
    """Kill a process that still runs, with all processes that it started."""
    if process.is_alive():
        with suppress(ProcessLookupError):  # it may not lead a group yet
            assert process.pid is not None
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
    process.join()


def _report(task: Task, folder: Path, took_s: float) -> Report:
    said = (folder / f"{task.name}.said").read_text(encoding="utf-8", errors="replace")
    result = Report(said=said, took_s=took_s)
    shutil.rmtree(folder / task.name, ignore_errors=True)
    file = folder / f"{task.name}.report"
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        match json.loads(line):
            case {"test": str(test), "outcome": str(outcome), "seconds": float(seconds)}:
                result.seconds[test] = result.seconds.get(test, 0) + seconds
                of = {
                    "failed": [result.failed],
                    "passed": [result.passed],
                    TIMED_OUT: [result.failed, result.timed_out],
                }
                for names in of.get(outcome, []):
                    names.add(test)
            case {"code": int(code), "copy": str(copy)}:
                result.code, result.copy = code, copy
    return result


def _run_fork(task: Task, folder: Path) -> NoReturn:
    """Run the tests in the forked process; end the process instead of returning."""
    try:
        os.setsid()
        said = os.open(folder / f"{task.name}.said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for stream in (1, 2):
            os.dup2(said, stream)
        package = folder / SOUND
        if task.changed:
            package = folder / task.name
            copy_with_changes(task.changed, package / "hearsay", folder / SOUND / "hearsay")
        path = [str(package), str(Path(__file__).parent)]
        os.environ.update(environment(package))
        sys.path[:0] = path
        os.chdir(TESTS.parent)
        with (folder / f"{task.name}.report").open("w", encoding="utf-8", buffering=1) as file:
            code = pytest.main([*OPTIONS, *task.tests], plugins=[OutcomeRecorder(file, task.tests)])
            tested = find_spec("hearsay")
            copy = "" if tested is None else Path(str(tested.origin)).parents[1].name
            file.write(json.dumps({"code": int(code), "copy": copy}) + "\n")
    except BaseException:
        print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


class OutcomeRecorder:
    """A plugin of pytest that records the outcome of each test. After a test failed for some parameters, it skips the
    test's other parameters.
    """

    def __init__(self, file: TextIO, tests: Sequence[str]) -> None:
        self._file = file
        self._tests = tests
        self._failed: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        return True if any(is_part(item.nodeid, test) for test in self._failed) else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # a test passes if its call passes; a test that a fixture skips does not
        outcome = report.outcome if report.when == "call" or report.failed else ""
        if report.failed and report.longreprtext.rstrip().endswith("TimeoutError"):
            outcome = TIMED_OUT
        line = {"test": report.nodeid, "outcome": outcome, "seconds": float(report.duration)}
        self._file.write(json.dumps(line) + "\n")
        if report.failed:
            self._failed.update(test for test in self._tests if is_part(report.nodeid, test))


def is_part(name: str, test: str) -> bool:
    """Return whether an id of pytest is that of the test, with or without parameters, or of a method of the class."""
    return name == test or name.startswith((f"{test}[", f"{test}::"))


def environment(package: Path) -> dict[str, str]:
    """Return the environment of programs that use this copy of the package."""
    path = os.pathsep.join((str(package), str(Path(__file__).parent)))
    storage = {"HYPOTHESIS_STORAGE_DIRECTORY": str(package)}
    return {**os.environ, "PYTHONPATH": path, "COLUMNS": "160", "HEARSAY_TURNS_OF_A_TEST": str(TURNS), **storage}


def copy_with_changes(changed: Mapping[str, str], made: Path, sound: Path) -> None:
    """Copy a folder: changed files have their new texts, all other files are links. Bytecode of changed files is left
    out.
    """
    made.mkdir(parents=True)
    inside: dict[str, dict[str, str]] = {}
    for file, text in changed.items():
        first, _, rest = file.partition("/")
        inside.setdefault(first, {})[rest] = text
    for entry in sound.iterdir():
        if entry.name == "__pycache__":
            _link_bytecode({Path(name).stem for name in inside}, made / entry.name, entry)
        elif entry.name not in inside:
            (made / entry.name).symlink_to(entry)
        elif entry.is_dir():
            copy_with_changes(inside[entry.name], made / entry.name, entry)
        else:
            (made / entry.name).write_text(inside[entry.name][""], encoding="utf-8")


def _link_bytecode(changed: set[str], made: Path, sound: Path) -> None:
    made.mkdir()
    for file in sound.iterdir():
        if file.name.partition(".")[0] not in changed:
            (made / file.name).symlink_to(file)
