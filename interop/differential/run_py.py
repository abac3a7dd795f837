"""Plays random sequences on py-libp2p's GossipSub and on Hearsay's, and shows where they part; exit 1 if they do in a
way that `py_differences.py` does not know.

python interop/differential/run_py.py [--seed 1] [--count 200] [--more WORD] [--vectors FILE…] [--shown 3]
"""

from __future__ import annotations

import argparse
import json
import os
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
from py_differences import Alike, is_known
from py_sequences import sequence

from hearsay.vectors import router_run
from hearsay.vectors.shapes import Misshapen

HERE = Path(__file__).parent
MISSING = 3
"""The exit code when py-libp2p's environment cannot be made."""
sys.path.insert(0, str(HERE.parent))
from foreign_peers import Missing, command_of  # noqa: E402

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
"""Hearsay's router where py-libp2p chooses otherwise than the specification."""


@dataclass
class Outcome:
    """What came of a sequence: how many steps were compared, and what was found."""

    steps: int = 0
    names: Counter[str] = field(default_factory=Counter[str])
    ended: str = ""
    unknown: Difference | None = None


class Driver:
    """py-libp2p's side, in a process and an environment of its own."""

    def __init__(self) -> None:
        command = [command_of("py")[0], str(HERE / "py" / "driver.py")]
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)

    def play(self, given: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(given) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"py-libp2p's side ended in {given['name']}")
        return json.loads(line)

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@contextmanager
def like_py() -> Generator[None]:
    with in_order(), patch.dict(router_run._CHOICES, {"py": CHOICES}):
        yield


def compared(given: dict[str, Any], theirs: dict[str, Any]) -> Outcome:
    """Both sides of a sequence, step by step, as far as they go together."""
    alike = Alike(given)
    outcome = Outcome(names=alike.names)
    ended = zip(given["steps"], play(given, "py"), theirs["steps"], strict="error" not in theirs)
    for number, (step, mine, other) in enumerate(ended):
        mine, other = alike(step, mine, other)
        mine.pop("scores")
        found = difference([step], [mine], [other])
        if found is not None:
            found = (number, *found[1:])
            if is_known(given.get("more", ""), step, mine, other):
                outcome.ended = given["more"]
            else:
                outcome.unknown = found
            return outcome
        outcome.steps += 1
    if "error" in theirs:
        outcome.unknown = (outcome.steps, "error", "", theirs["error"])
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
    began = time.monotonic()
    with Driver() as driver, like_py():
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
                "\n  (step, what, Hearsay, py-libp2p):",
                compared(small, driver.play(small)).unknown,
            )
    return 1 if unknown else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Missing as error:
        print(error, file=sys.stderr)
        sys.exit(MISSING)
