"""Play sequences on another implementation's router and on Hearsay's, compare each step, and print a summary."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from compare import Difference, difference, shrink
from hearsay_side import play

from hearsay.vectors.schema import Misshapen

sys.path.insert(0, str(Path(__file__).parents[1]))
from foreign_peers import Missing

MISSING = 3
"""Exit code if the driver cannot be built."""


@dataclass
class Outcome:
    """The result of a sequence: the number of equal steps, and the differences."""

    steps: int = 0
    names: Counter[str] = field(default_factory=Counter[str])
    """Number of steps from whose results each known difference was removed."""
    ended: str = ""
    """The known difference that ended the comparison, if any."""
    unknown: Difference | None = None


class Driver:
    """The process that plays sequences on the other implementation's router."""

    def __init__(
        self, name: str, command: Sequence[str | Path], environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)

    def play(self, given: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(given) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line.startswith("{"):
            sys.exit(
                f"the driver of {self.name} ended in sequence {given['name']}: {line}{self.process.stdout.read()}"
            )
        return json.loads(line)

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Differences(Protocol):
    """The known differences in one sequence."""

    names: Counter[str]
    """Number of steps from whose results each difference was removed."""

    def __call__(self, step: dict[str, Any], ours: Any, theirs: Any) -> tuple[Any, Any]:
        """Remove from the results of a step the differences that do not end the sequence."""
        ...

    def ending_difference(self, step: dict[str, Any], ours: Any, theirs: Any) -> str:
        """Return the name of the difference that ends the sequence at this step, or an empty string."""
        ...


@dataclass(frozen=True)
class Comparison:
    """The comparison of Hearsay's router with that of another implementation."""

    implementation: str
    driver: Callable[[], Driver]
    like: Callable[[], AbstractContextManager[None]]
    """A context in which Hearsay's router makes the choices of the other router."""
    sequence: Callable[[int, str | None], dict[str, Any]]
    differences: Callable[[dict[str, Any]], Differences]

    def play(self, driver: Driver, given: dict[str, Any]) -> Outcome:
        """Play a sequence on both sides, and compare them."""
        return self.compare(given, driver.play(given))

    def compare(self, given: dict[str, Any], theirs: dict[str, Any]) -> Outcome:
        """Compare both sides of a sequence step by step, up to the first difference."""
        known = self.differences(given)
        outcome = Outcome(names=known.names)
        both = zip(
            given["steps"],
            play(given, self.implementation),
            theirs.get("steps") or (),
            strict="error" not in theirs,
        )
        for number, (step, mine, other) in enumerate(both):
            mine, other = known(step, mine, other)
            found = difference([step], [mine], [other])
            if found is not None:
                outcome.ended = known.ending_difference(step, mine, other)
                if not outcome.ended:
                    outcome.unknown = (number, *found[1:])
                return outcome
            outcome.steps += 1
        if "error" in theirs:
            outcome.unknown = (outcome.steps, "error", "", theirs["error"])
        return outcome


def run(comparison: Comparison) -> int:
    """Run the program of a comparison with its options, and return the exit code.

    The code is 1 if a difference is not known, `MISSING` if the driver cannot be built, else 0.
    """
    options = argparse.ArgumentParser()
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--count", type=int, default=200)
    options.add_argument("--more", metavar="WORD", help="the known difference that sequences may show")
    options.add_argument("--shown", type=int, default=3, help="number of unknown differences to print in full")
    options.add_argument("--vectors", nargs="*", type=Path, help="files like those of vectors/router")
    chosen = options.parse_args()
    if chosen.vectors:
        given = [each for file in chosen.vectors for each in json.loads(file.read_text())["vectors"]]
    else:
        seeds = range(chosen.seed, chosen.seed + chosen.count)
        given = [comparison.sequence(seed, chosen.more) for seed in seeds]
    try:
        with comparison.driver() as driver, comparison.like():
            return _report(comparison, driver, given, chosen.shown)
    except Missing as error:
        print(error, file=sys.stderr)
        return MISSING


def _report(comparison: Comparison, driver: Driver, given: list[dict[str, Any]], shown: int) -> int:
    began = time.monotonic()
    outcomes = [comparison.play(driver, each) for each in given]
    steps = sum(outcome.steps for outcome in outcomes)
    whole = sum(not outcome.ended and outcome.unknown is None for outcome in outcomes)
    print(f"{len(given)} sequences, {whole} to their end, {steps} steps compared, {time.monotonic() - began:.0f} s")
    print(
        "known differences removed from steps:",
        sum((outcome.names for outcome in outcomes), Counter[str]()).most_common(),
    )
    print(
        "sequences ended by a known difference:",
        Counter(outcome.ended for outcome in outcomes if outcome.ended).most_common(),
    )
    unknown = [(each, outcome.unknown) for each, outcome in zip(given, outcomes, strict=True) if outcome.unknown]
    kinds = Counter(
        f"{each.get('more', '')}: {found[1]} in {each['steps'][found[0]]['event']}" for each, found in unknown
    )
    print("unknown differences:", kinds.most_common())
    for each, found in unknown[:shown]:
        small = _smallest(comparison, driver, each, found)
        print(json.dumps(small))
        print(f"  (step, what, Hearsay, {driver.name}):", comparison.play(driver, small).unknown)
    return 1 if unknown else 0


def _smallest(comparison: Comparison, driver: Driver, given: dict[str, Any], found: Difference) -> dict[str, Any]:
    """Return the shortest part of the sequence that shows the same difference at the same time."""
    wanted = (given["steps"][found[0]]["at"], *found[1:])

    def differs(one: dict[str, Any]) -> bool:
        try:
            again = comparison.play(driver, one).unknown
        except Misshapen:
            return False
        return again is not None and (one["steps"][again[0]]["at"], *again[1:]) == wanted

    small = shrink({**given, "steps": given["steps"][: found[0] + 1]}, differs)
    used = {name: own for name, own in small["messages"].items() if f'"{name}"' in json.dumps(small["steps"])}
    return {**small, "messages": used}
