"""Plays random sequences on libp2p-gossipsub (Rust) and on Hearsay's router, and shows where they part; exit 1 if
they do so in a way that `rust_differences.py` does not know.

python interop/differential/run_rust.py [--seed 1] [--count 200] [--more WORD] [--vectors FILE…] [--shown 3]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from compare import Difference, difference, shrunk
from hearsay_side import in_order, play
from rust_differences import Alike, ending
from rust_sequences import SECOND, sequence

from hearsay.core.mesh import graft_bounds
from hearsay.core.registry import ROUTERS
from hearsay.vectors import router_run, score_run
from hearsay.vectors.shapes import Misshapen

sys.path.insert(0, str(Path(__file__).parents[1]))
from foreign_peers import Missing
from rust_build import built

MISSING = 3
"""The exit code when the driver cannot be built."""


@dataclass
class Outcome:
    """What came of a sequence: how many steps were compared, and what was found."""

    steps: int = 0
    names: Counter[str] = field(default_factory=Counter[str])
    ended: str = ""
    unknown: Difference | None = None


class Driver:
    """The Rust side, in a process of its own."""

    def __init__(self) -> None:
        self.process = subprocess.Popen([built()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def play(self, given: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(given) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"the Rust side ended in {given['name']}")
        return json.loads(line)

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


OF_SCORES = (*score_run._DIFFERENCES, "time_in_mesh_quanta", "ipv6_addresses")
"""What no vector says of scores, and the preset does."""
CHOICES = router_run._choices(ROUTERS["gossipsub"].presets["rust"])


def is_held(now: int, until: int, slack: int) -> bool:
    """Whether the Rust side still holds a backoff. It forgets one in the first heartbeat after the end and the slack;
    one that began in a heartbeat is held in the heartbeat in which these are over."""
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


def compared(given: dict[str, Any], theirs: dict[str, Any]) -> Outcome:
    """Both sides of a sequence, step by step, as far as they go together."""
    alike = Alike(given)
    outcome = Outcome(names=alike.names)
    both = zip(given["steps"], play(given, "rust"), theirs["steps"], strict=True)
    for number, (step, mine, other) in enumerate(both):
        mine, other = alike(step, mine, other)
        found = difference([step], [mine], [other])
        if found is not None:
            outcome.ended = ending(alike, step, mine, other)
            if not outcome.ended:
                outcome.unknown = (number, *found[1:])
            return outcome
        outcome.steps += 1
    return outcome


def smallest(driver: Driver, given: dict[str, Any], found: Difference) -> dict[str, Any]:
    """The sequence without what its difference does not need: the same one, at the same step."""
    at = given["steps"][found[0]]["at"]

    def differs(tries: list[dict[str, Any]]) -> list[bool]:
        return [_differs(driver, one, (at, *found[1:])) for one in tries]

    small = shrunk({**given, "steps": given["steps"][: found[0] + 1]}, differs)
    used = {name: own for name, own in small["messages"].items() if f'"{name}"' in json.dumps(small["steps"])}
    return {**small, "messages": used}


def _differs(driver: Driver, given: dict[str, Any], wanted: tuple[Any, ...]) -> bool:
    try:
        found = compared(given, driver.play(given)).unknown
    except Misshapen:
        return False
    return found is not None and (given["steps"][found[0]]["at"], *found[1:]) == wanted


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--count", type=int, default=200)
    options.add_argument("--more")
    options.add_argument("--shown", type=int, default=3)
    options.add_argument("--vectors", nargs="*", type=Path)
    chosen = options.parse_args()
    given = [sequence(seed, chosen.more) for seed in range(chosen.seed, chosen.seed + chosen.count)]
    if chosen.vectors:
        given = [json.loads(line) for file in chosen.vectors for line in file.read_text().splitlines()]
    with Driver() as driver, like_rust():
        began = time.monotonic()
        outcomes = [compared(each, driver.play(each)) for each in given]
        steps = sum(outcome.steps for outcome in outcomes)
        whole = sum(not outcome.ended and outcome.unknown is None for outcome in outcomes)
        print(
            f"{len(given)} sequences, {whole} to their end, {steps} steps compared, {time.monotonic() - began:.0f} s"
        )
        print("taken out of steps:", sum((outcome.names for outcome in outcomes), Counter[str]()).most_common())
        print("ended at:", Counter(outcome.ended for outcome in outcomes if outcome.ended).most_common())
        unknown = [(each, outcome.unknown) for each, outcome in zip(given, outcomes, strict=True) if outcome.unknown]
        kinds = Counter(
            f"{each['more']}: {found[1]} in {each['steps'][found[0]]['event']}" for each, found in unknown
        )
        print("not known:", kinds.most_common())
        for each, found in unknown[: chosen.shown]:
            small = smallest(driver, each, found)
            print(
                json.dumps(small),
                "\n  (step, what, Hearsay, Rust):",
                compared(small, driver.play(small)).unknown,
            )
    return 1 if unknown else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Missing as error:
        print(error, file=sys.stderr)
        sys.exit(MISSING)
