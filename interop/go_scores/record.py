"""Record go's scores after each of many random calls, for tests/core/scores/test_scores_of_go.py.

    python interop/go_scores/record.py SCRIPTS CALLS FILE

`driver.go` performs the calls, in a program that `timed_copy.py` builds. Go adds the scores of topics in a random
order, so there are at most two scored topics, whose sum does not depend on the order.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from timed_copy import MODULE, build_program

PEERS = "ABCDE"
SECOND = 1_000_000
REASONS = ("BAD_SIGNATURE", "SELF_ORIGIN", "REJECTED", "IGNORED", "THROTTLED", "QUEUE_FULL")
CALLS = {
    "connect": 2,
    "disconnect": 2,
    "graft": 6,
    "prune": 3,
    "validate": 6,
    "deliver": 12,
    "duplicate": 20,
    "reject": 8,
    "penalise": 2,
    "set_application_score": 1,
    "refresh": 6,
}
"""Calls with their weights in the random choice."""


def peer_parameters(chance: random.Random) -> dict[str, float]:
    one = chance.choice
    return {
        "topic_cap": one([0, 3, 20]),
        "application_weight": one([0, 0.5, 1]),
        "shared_address_weight": one([0, -1, -5.5]),
        "shared_address_threshold": one([1, 2]),
        "misbehaviour_weight": one([-1, -10]),
        "misbehaviour_threshold": one([0, 1, 2.5]),
        "misbehaviour_decay": one([0.2, 0.9, 0.99]),
        "decay_to_zero": one([0.01, 0.1]),
        "retain_ms": one([1_000, 5_000, 30_000]),
        "delivery_ttl_ms": 3_000,
    }


def topic_numbers(chance: random.Random) -> dict[str, float]:
    one = chance.choice
    return {
        "weight": one([0.25, 0.5, 1.0]),
        "time_in_mesh_weight": one([0.0, 0.01, 0.0027]),
        "quantum": one([1_000, 700_000, SECOND]),
        "time_in_mesh_cap": one([3.0, 10.0, 3600.0]),
        "first_weight": one([0.0, 0.664, 1.0]),
        "first_decay": one([0.5, 0.9, 0.9916]),
        "first_cap": one([2.0, 5.0, 100.0]),
        "mesh_weight": one([0.0, -0.25, -1.0]),
        "mesh_decay": one([0.5, 0.9, 0.997]),
        "mesh_cap": one([4.0, 9.0, 400.0]),
        "mesh_threshold": one([2.0, 3.7, 10.0]),
        "window": one([0, 5_000, 100_000]),
        "activation": one([0, SECOND, 2 * SECOND]),
        "failure_weight": one([0.0, -0.25, -1.0]),
        "failure_decay": one([0.5, 0.9, 0.997]),
        "invalid_weight": one([-1.0, -99.0]),
        "invalid_decay": one([0.5, 0.9, 0.9994]),
    }


def random_script(seed: int, count: int) -> dict[str, Any]:
    """Return random parameters, and calls about five peers, one or two scored topics and one unscored topic."""
    chance = random.Random(seed)
    parameters = peer_parameters(chance)
    topics = {name: topic_numbers(chance) for name in ("blocks", "news")[: 1 + seed % 2]}
    return {"parameters": parameters, "topics": topics, "calls": list(random_calls(chance, tuple(topics), count))}


def random_calls(chance: random.Random, topics: tuple[str, ...], count: int) -> Iterator[dict[str, Any]]:
    now = 0
    for peer in PEERS[:-1]:
        yield {"call": "connect", "now": now, "peer": peer, "addresses": addresses(chance)}
    for number in range(count):
        now += chance.choice([0, 0, 0, 1, 3_000, 5_001, 50_000, 400_000])
        name = chance.choices(list(CALLS), list(CALLS.values()))[0]
        peer = chance.choice("AABBCDE")
        topic = "other" if chance.random() < 0.05 else chance.choice(topics)
        message = f"{topic}-{chance.randint(max(0, number // 12 - 3), number // 12)}"
        made: dict[str, Any] = {"call": name, "now": now}
        if name not in ("validate", "refresh"):
            made["peer"] = peer
        if name in ("graft", "prune", "validate", "deliver", "duplicate", "reject"):
            made["topic"] = topic
        if name in ("validate", "deliver", "duplicate", "reject"):
            made["message"] = message
        match name:
            case "connect":
                made["addresses"] = addresses(chance)
            case "reject":
                made["reason"] = chance.choice(REASONS)
            case "penalise":
                made["value"] = chance.randint(1, 3)
            case "set_application_score":
                made["value"] = chance.choice([-10, -1.5, 0, 2, 7.25])
        yield made


def addresses(chance: random.Random) -> list[str]:
    return chance.sample(["1.2.3.4", "1.2.3.5"], chance.randint(0, 2))


def record_scores(scripts: list[dict[str, Any]], program: Path) -> None:
    """Run the calls of all scripts, and add to each call the scores that it changed."""
    lines: list[str] = []
    for each in scripts:
        lines.append(json.dumps({"peers": list(PEERS), **{name: each[name] for name in ("parameters", "topics")}}))
        lines += map(json.dumps, each["calls"])
    answers = subprocess.run([program], input="\n".join(lines), capture_output=True, text=True, check=True).stdout
    rows = iter(answers.splitlines())
    for each in scripts:
        before = [0.0] * len(PEERS)
        for call in each["calls"]:
            after = json.loads(next(rows))
            call["scores"] = {peer: new for peer, old, new in zip(PEERS, before, after, strict=True) if old != new}
            before = after


def main() -> None:
    count, length, file = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    scripts = [random_script(seed, length) for seed in range(count)]
    with TemporaryDirectory() as folder:
        program, version = build_program(Path(folder), "pubsub.Drive()")
        record_scores(scripts, program)
    parts = [
        f'{{"parameters": {json.dumps(each["parameters"])},\n"topics": {json.dumps(each["topics"])},\n"calls": [\n'
        + ",\n".join(map(json.dumps, each["calls"]))
        + "\n]}"
        for each in scripts
    ]
    head = json.dumps(f"{MODULE} {version}")
    file.write_text(f'{{"source": {head},\n"scripts": [\n{",".join(parts)}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
