"""Play random sequences on py-libp2p's GossipSub and on Hearsay's router, and print the differences.

The exit code is 1 if `py_differences.py` does not describe a difference.

    python interop/differential/run_py.py [--seed 1] [--count 200] [--more WORD] [--vectors FILE…] [--shown 3]
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from hearsay_side import in_order
from py_differences import KnownDifferences
from py_sequences import sequence
from replay import Comparison, Driver, run

from hearsay.vectors import router_run

sys.path.insert(0, str(Path(__file__).parents[1]))
from foreign_peers import command_of

DRIVER = Path(__file__).parent / "py" / "driver.py"
CHOICES = {
    "full_mesh": "accept",
    "unknown_graft": "prune",
    "unsubscribed_graft": "taken_in",
    "backoff_slack_heartbeats": 0,
    "backoff_when_not_joined": True,
    "graft_on_subscribe": True,
    "idontwant_on_publish": True,
    "extensions": True,
    "seen_ttl_ms": 1_000_000,
}
"""Parameters of Hearsay's router for behaviour of py-libp2p that differs from the specification."""


@contextmanager
def like_py() -> Generator[None]:
    with in_order(), patch.dict(router_run._CHOICES, {"py": CHOICES}):
        yield


def start_driver() -> Driver:
    return Driver("py-libp2p", [command_of("py")[0], DRIVER], {**os.environ, "PYTHONHASHSEED": "0"})


COMPARISON = Comparison("py", start_driver, like_py, sequence, KnownDifferences)

if __name__ == "__main__":
    sys.exit(run(COMPARISON))
