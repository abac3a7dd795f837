"""Plays random sequences on go-libp2p-pubsub's router and on Hearsay's, and shows where they part; exit 1 if they do.

python interop/differential/run_go.py [--seed 1] [--count 300] [--vectors FILE…] [--shown 5]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from compare import Difference, difference, shrunk
from hearsay_side import in_order, play
from sequences import sequence

from hearsay.vectors.shapes import Misshapen

HERE = Path(__file__).parent
MODULE = "github.com/libp2p/go-libp2p-pubsub@v0.19.0"
SHUFFLE = re.compile(r"(func (shufflePeers|shufflePeerInfo|shuffleStrings)\((\w+) [^{]*\{\n).*?\n}\n", re.DOTALL)
ORDER = {
    "shufflePeers": "slices.Sort({0})",
    "shuffleStrings": "slices.Sort({0})",
    "shufflePeerInfo": "sort.Slice({0}, func(i, j int) bool "
    "{{ return string({0}[i].PeerID) < string({0}[j].PeerID) }})",
}


def built(folder: Path) -> Path:
    """The driver in a copy of go-libp2p-pubsub that chooses in the order of names."""
    listed = subprocess.check_output(["go", "mod", "download", "-json", MODULE], cwd=folder, text=True)
    copy = folder / "pubsub"
    shutil.copytree(json.loads(listed)["Dir"], copy, ignore=shutil.ignore_patterns("*_test.go"))
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o755)
    router, promises = copy / "gossipsub.go", copy / "gossip_tracer.go"
    text, count = SHUFFLE.subn(lambda at: f"{at[1]}\t{ORDER[at[2]].format(at[3])}\n}}\n", router.read_text())
    assert count == len(ORDER)
    text = text.replace('\t"math/rand"\n', "")
    router.write_text(text if '\t"slices"\n' in text else text.replace('\t"sort"\n', '\t"slices"\n\t"sort"\n'))
    text = promises.read_text().replace("idx := rand.Intn(len(msgIDs))", "idx := 0").replace('\t"math/rand"\n', "")
    promises.write_text(text)
    for file in (HERE / "go").glob("*_test.go"):
        shutil.copy(file, copy)
    environment = {**os.environ, "GOFLAGS": "-mod=mod"}
    subprocess.run(["go", "test", "-c", "-o", "../driver", "."], cwd=copy, env=environment, check=True)
    return folder / "driver"


def played(driver: Path, sequences: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    given, found = folder / "sequences.jsonl", folder / "results.jsonl"
    given.write_text("".join(json.dumps(each) + "\n" for each in sequences), encoding="utf-8")
    environment = {**os.environ, "SEQUENCES": str(given), "RESULTS": str(found)}
    done = subprocess.run([driver, "-test.run", "TestSequences", "-test.timeout", "0"], env=environment,
                          capture_output=True, text=True)  # fmt: skip
    if done.returncode:
        sys.exit(f"{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return [json.loads(line) for line in found.read_text(encoding="utf-8").splitlines()]


def parted(given: dict[str, Any], theirs: dict[str, Any]) -> Difference | None:
    if "error" in theirs or theirs["steps"] is None:
        return None
    try:
        return difference(given["steps"], play(given, "go"), theirs["steps"])
    except Misshapen as error:
        return None if "shrink" in given else (0, "refused", str(error), "")


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--count", type=int, default=300)
    options.add_argument("--shown", type=int, default=5)
    options.add_argument("--vectors", nargs="*", type=Path)
    chosen = options.parse_args()
    sequences = [sequence(seed) for seed in range(chosen.seed, chosen.seed + chosen.count)]
    if chosen.vectors:
        sequences = [each for file in chosen.vectors for each in json.loads(file.read_text())["vectors"]]
    with TemporaryDirectory() as name, in_order():
        folder = Path(name)
        driver = built(folder)
        began = time.monotonic()
        theirs = played(driver, sequences, folder)
        took = time.monotonic() - began
        refused = [each["name"] for each in theirs if "error" in each]
        pairs = [(each, parted(each, other)) for each, other in zip(sequences, theirs, strict=True)]
        different = [(each, found) for each, found in pairs if found]
        kinds = Counter(f"{found[1]} in {each['steps'][found[0]]['event']}" for each, found in different)
        print(
            f"{len(sequences)} sequences, {len(refused)} refused by go, {len(different)} differ; go took {took:.1f} s"
        )
        print(kinds.most_common())
        for each, found in different[: chosen.shown]:
            kind = found[1]

            def differs(tries: list[dict[str, Any]], kind: str = kind) -> list[bool]:
                tries = [{**one, "shrink": True} for one in tries]
                ends = [parted(one, other) for one, other in zip(tries, played(driver, tries, folder), strict=True)]
                return [end is not None and end[1] == kind for end in ends]

            small = shrunk(each, differs)
            again = parted(small, played(driver, [small], folder)[0])
            used = {name: own for name, own in small["messages"].items() if f'"{name}"' in json.dumps(small["steps"])}
            print(json.dumps({**small, "messages": used}), "\n  (step, what, Hearsay, go):", again)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
