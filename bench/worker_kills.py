"""Kill workers of a standalone cluster while a command runs there, which must complete on the other workers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from threading import Timer

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/pipeline"))

from kills import environment
from standalone import Cluster


def kill_workers_of_a_cluster(
    points: int,
    random: Random,
    delays_s: tuple[float, float],
    base: Path,
    command: Callable[[Path], list[str]],
    check: Callable[[Path], None],
) -> None:
    """Run a command `points` times on a cluster of two workers, and kill the older worker at a random time each time.

    Then a new worker replaces it. `command` returns the command for an output folder, and `check` tests that folder
    at the end.
    """
    cluster = Cluster(base)
    try:
        master = cluster.start_master()
        workers = [cluster.start_worker(f"worker{number}", master) for number in range(2)]
        for point in range(points):
            out = base / f"cluster-{point}"
            delay = random.uniform(*delays_s)
            victim = workers.pop(0)
            alarm = Timer(delay, victim.kill)
            alarm.start()
            done = subprocess.run(
                [*command(out), "--master", master],
                capture_output=True, text=True, env=environment(), timeout=400,
            )  # fmt: skip
            alarm.cancel()
            victim.kill()
            workers.append(cluster.start_worker(f"worker{point + 2}", master))
            assert done.returncode == 0, done.stderr
            check(out)
            print(f"cluster: worker killed after {delay:.0f} s; complete, tables equal", flush=True)
    finally:
        cluster.stop()
