"""A tuning with a known best answer: a router that sends control parts with each message by a formula.

With `NODES` nodes that all receive every message, control per delivery is ((x − 7)² + (y − 3)² + 1) / NODES, and the
first control part has x times `LOAD` bytes. y must not be above x.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kills import LOOK_AGAIN_S, ends_within, environment, kill_family

from hearsay.studies.processes import OpenPackMaker, Processes
from hearsay.studies.results import StudyFolder
from hearsay.studies.runner import Progress
from hearsay.studies.tuning.output import write_answers
from hearsay.studies.tuning.space import spaces
from hearsay.studies.tuning.tune import Tune, Tuned, answer_of
from hearsay.studies.tuning.tune_file import Tuning, load_tuning

NODES, MESSAGES, LOAD = 6, 2, 10_000
HEAVIEST = 5
"""The greatest x that keeps the bound on bytes."""
BOUND = MESSAGES * LOAD * (HEAVIEST + 1) // NODES

ROUTER = f"""
from collections.abc import Iterator
from dataclasses import dataclass

from hearsay.core.flooding import Randomsub, RandomsubParameters
from hearsay.core.registry import RouterKind
from hearsay.core.shell.parameters import Violation, integer
from hearsay.routers import FIRST_EXTENSION_FIELD, Extension


@dataclass(frozen=True, slots=True, kw_only=True)
class HillParameters(RandomsubParameters):
    x: int = integer(12, low=0, high=20)
    y: int = integer(12, low=0, high=20)

    def cross_rules(self) -> Iterator[Violation]:
        if self.y > self.x:
            yield Violation("y", self.y, f"must not be above x ({{self.x}})")


class Hill(Randomsub):
    def publish(self, message):
        super().publish(message)
        x, y = self.parameters.x, self.parameters.y
        if x == 13:
            raise RuntimeError("thirteen")
        nearest = min(self.shell.peers.in_topic(message.topic).native)
        for number in range((x - 7) ** 2 + (y - 3) ** 2 + 1):
            load = b"" if number else bytes(x * {LOAD})
            self.shell.outbox.extension(nearest, Extension(FIRST_EXTENSION_FIELD + 2000, load))


KIND = RouterKind("hill", HillParameters, Hill, {{}})
"""

RANGE = "from = 0\nto = 12\nstep = 1"
TUNE = (sys.executable, "-m", "hearsay", "tune")
TUNING = Path(__file__).with_name("hill.toml").read_text(encoding="utf-8")


def height(x: int, y: int) -> float:
    """Return the control per delivery."""
    return ((x - 7) ** 2 + (y - 3) ** 2 + 1) / NODES


def write_problem(folder: Path, text: str = TUNING, module: str = "hill_router") -> Path:
    """Write the tune file, and next to it the router as a module with this name; return the file."""
    (folder / f"{module}.py").write_text(ROUTER)
    sys.modules.pop(module, None)
    path = folder / "hill.toml"
    path.write_text(text.replace("MODULE", module))
    return path


class KeptProcesses:
    """Processes that several searches share. A search that raises ends them, and the next search starts new ones."""

    def __init__(self) -> None:
        self._opened: Processes | None = None

    @contextmanager
    def open(self, _modules: Sequence[Path]) -> Generator[Processes]:
        self._opened = self._opened or Processes(2)
        try:
            yield self._opened
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._opened is not None:
            self._opened.cancel()
            self._opened = None


def tune(
    tuning: Tuning | Path,
    out: Path,
    listen: Callable[[Progress], None] = lambda _: None,
    *,
    again: bool = False,
    place: OpenPackMaker = lambda _: Processes(2),
) -> Tuned:
    """Tune in processes of this machine, and write the files of the answer into the folder `out`."""
    if isinstance(tuning, Path):
        tuning = load_tuning(tuning)
    folder = StudyFolder.open(out)
    try:
        done = Tune(spaces(tuning), folder, place, listen, again=again).run()
        write_answers(folder, tuning, [answer_of(found) for found in done.searches])
    finally:
        folder.close()
    return done


def command(path: Path, out: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command in the folder with the router."""
    settings = {"cwd": path.parent, "env": environment() | variables, "timeout": 300}
    return subprocess.run([*TUNE, path, "--out", out, *options], capture_output=True, text=True, **settings)


def kill_after_first_results(path: Path, out: Path, *options: str, **variables: str) -> None:
    """Run the command in the folder with the router, and kill it when the results of a pack are stored."""
    settings = {"cwd": path.parent, "env": environment() | variables, "stdout": subprocess.DEVNULL}
    process = subprocess.Popen(
        [*TUNE, path, "--out", out, *options], stderr=subprocess.DEVNULL, text=True, **settings
    )
    while not list(out.glob("results/*.parquet")):
        assert not ends_within(process.pid, LOOK_AGAIN_S)
    kill_family(process)


def output_files(out: Path) -> dict[str, bytes]:
    """Return the content of the output files that do not depend on the machine, by name."""
    kept = [*(out / "answer").iterdir(), *(out / "scenarios").iterdir()]
    kept += [file for file in (out / "tables").iterdir() if file.stem != "resources"]
    return {str(file.relative_to(out)): file.read_bytes() for file in kept}
