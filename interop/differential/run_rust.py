"""Play random sequences on libp2p-gossipsub (Rust) and on Hearsay's router, and print the differences.

The exit code is 1 if `rust_differences.py` does not describe a difference.

    python interop/differential/run_rust.py [--seed 1] [--count 200] [--more WORD] [--vectors FILE…] [--shown 3]
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from unittest.mock import patch

from hearsay_side import in_order
from replay import Comparison, Driver, run
from rust_build import build_driver
from rust_differences import KnownDifferences
from rust_sequences import SECOND, sequence

from hearsay.core.mesh import graft_bounds
from hearsay.core.registry import ROUTERS
from hearsay.vectors import router_run, score_run

OF_SCORES = (*score_run._DIFFERENCES, "time_in_mesh_quanta", "ipv6_addresses")
"""Keys of scores by which presets differ; the last two are in the preset but in no vector."""
CHOICES = {
    name: value for name, value in ROUTERS["gossipsub"].presets["rust"].items() if name not in router_run._GIVEN
}


def is_held(now: int, until: int, slack: int) -> bool:
    """Return whether the Rust router still has a backoff.

    The Rust router deletes a backoff in the first heartbeat after the backoff's end plus the slack. If this sum is
    the time of a heartbeat, the backoff still exists in that heartbeat. Times are in microseconds.
    """
    heartbeat = (now - SECOND // 2) // SECOND * SECOND + SECOND // 2
    return heartbeat <= until + slack


@contextmanager
def like_rust() -> Generator[None]:
    with (
        in_order(),
        patch.dict(router_run._CHOICES, {"rust": CHOICES}),
        patch.object(score_run, "_DIFFERENCES", OF_SCORES),
        patch.object(graft_bounds, "is_early_of_us", is_held),
    ):
        yield


def start_driver() -> Driver:
    return Driver("Rust", [build_driver()])


COMPARISON = Comparison("rust", start_driver, like_rust, sequence, KnownDifferences)

if __name__ == "__main__":
    sys.exit(run(COMPARISON))
