"""Plays random sequences on go-libp2p-pubsub's router and on Hearsay's, and shows where they part; exit 1 if they do
in a way that `go_differences.py` does not know.

python interop/differential/run_go.py [--seed 1] [--count 200] [--more WORD] [--vectors FILE…] [--shown 3]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from compare import Difference, difference, shrunk
from go_differences import Alike
from go_sequences import sequence
from hearsay_side import in_order, play

from hearsay.core.language.rpc import Control, Features, Message, Rpc
from hearsay.vectors import router_run
from hearsay.vectors.router_run import to_rpc
from hearsay.vectors.shapes import Misshapen

HERE = Path(__file__).parent
MISSING = 3
"""The exit code when the driver cannot be built."""
sys.path.insert(0, str(HERE.parent))
from foreign_peers import Missing, command_of  # noqa: E402

CHOICES: dict[str, object] = {"exchange_dials": 0}
"""As many as `PrunePeers` says are dialled, which go has for both."""


@dataclass
class Outcome:
    """What came of a sequence: how many steps were compared, and what was found."""

    steps: int = 0
    names: Counter[str] = field(default_factory=Counter[str])
    ended: str = ""
    unknown: Difference | None = None


class Driver:
    """go's side, in a process of its own."""

    def __init__(self) -> None:
        command = [*command_of("differential/go"), "-test.run", "TestSequences", "-test.timeout", "0"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def play(self, given: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(given) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line.startswith("{"):
            sys.exit(f"go's side ended in {given['name']}: {line}{self.process.stdout.read()}")
        return json.loads(line)

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


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


def compared(given: dict[str, Any], theirs: dict[str, Any]) -> Outcome:
    """Both sides of a sequence, step by step, as far as they go together."""
    alike = Alike(given)
    outcome = Outcome(names=alike.names)
    if "error" in theirs:
        outcome.unknown = (0, "error", "", theirs["error"])
        return outcome
    both = zip(given["steps"], play(given, "go"), theirs["steps"], strict=True)
    for number, (step, mine, other) in enumerate(both):
        mine, other = alike(step, mine, other)
        found = difference([step], [mine], [other])
        if found is not None:
            outcome.ended = alike.ended(step, mine, other)
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
    if not given["steps"]:
        return False
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
        given = [each for file in chosen.vectors for each in json.loads(file.read_text())["vectors"]]
    began = time.monotonic()
    with Driver() as driver, like_go():
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
            f"{each.get('more', '')}: {found[1]} in {each['steps'][found[0]]['event']}" for each, found in unknown
        )
        print("not known:", kinds.most_common())
        for each, found in unknown[: chosen.shown]:
            small = smallest(driver, each, found)
            print(json.dumps(small), "\n  (step, what, Hearsay, go):", compared(small, driver.play(small)).unknown)
    return 1 if unknown else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Missing as error:
        print(error, file=sys.stderr)
        sys.exit(MISSING)
