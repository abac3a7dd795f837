"""Play random sequences on go-libp2p-pubsub's router and on Hearsay's router, and print the differences.

The exit code is 1 if `go_differences.py` does not describe a difference.

    python interop/differential/run_go.py [--seed 1] [--count 200] [--more WORD] [--vectors FILE…] [--shown 3]
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from go_differences import KnownDifferences
from go_sequences import sequence
from hearsay_side import in_order
from replay import Comparison, Driver, run

from hearsay.core.language.rpc import Control, Features, Message, Rpc
from hearsay.vectors import router_run
from hearsay.vectors.router_run import to_rpc

sys.path.insert(0, str(Path(__file__).parents[1]))
from foreign_peers import command_of

CHOICES: dict[str, object] = {"exchange_dials": 0}
"""Choices of Hearsay's router in addition to those of the vectors. With 0, the number of dialled peers of a PRUNE is
`PrunePeers`; go has one parameter for both numbers."""


def _with_extensions(form: Mapping[str, Any], messages: Mapping[str, Message]) -> Rpc:
    rpc = to_rpc(form, messages)
    if "extensions" not in form:
        return rpc
    said = Features(partial_messages="partial_messages" in form["extensions"])
    return replace(rpc, control=replace(rpc.control or Control(), features=(said,)))


@contextmanager
def like_go() -> Generator[None]:
    of_extensions = patch.object(router_run, "to_rpc", _with_extensions)
    choices = {**router_run._CHOICES["go"], **CHOICES}
    with in_order(), of_extensions, patch.dict(router_run._CHOICES, {"go": choices}):
        yield


def start_driver() -> Driver:
    return Driver("go", [*command_of("differential/go"), "-test.run", "TestSequences", "-test.timeout", "0"])


COMPARISON = Comparison("go", start_driver, like_go, sequence, KnownDifferences)

if __name__ == "__main__":
    sys.exit(run(COMPARISON))
