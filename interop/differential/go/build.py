"""Build the driver: a test program in a copy of go-libp2p-pubsub that replaces random choices by the order of names.

    python build.py FOLDER

Needs go and the modules of interop/go, whose go.mod has the version.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
MODULE = "github.com/libp2p/go-libp2p-pubsub"
SHUFFLE = re.compile(r"(func (shufflePeers|shufflePeerInfo|shuffleStrings)\((\w+) [^{]*\{\n).*?\n}\n", re.DOTALL)
ORDER = {
    "shufflePeers": "slices.Sort({0})",
    "shuffleStrings": "slices.Sort({0})",
    "shufflePeerInfo": "sort.Slice({0}, func(i, j int) bool "
    "{{ return string({0}[i].PeerID) < string({0}[j].PeerID) }})",
}
RANDOM = '\t"math/rand"\n'


def build(folder: Path) -> None:
    """Build the program `driver` in the folder."""
    modules = HERE.parent.parent / "go"
    subprocess.run(["go", "mod", "download", MODULE], cwd=modules, check=True)
    source = subprocess.check_output(["go", "list", "-m", "-f", "{{.Dir}}", MODULE], cwd=modules, text=True).strip()
    with TemporaryDirectory() as name:
        copy = Path(name) / "pubsub"
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("*_test.go"))
        for path in (copy, *copy.rglob("*")):
            path.chmod(0o755)
        _order_choices(copy)
        for file in HERE.glob("*_test.go"):
            shutil.copy(file, copy)
        environment = {**os.environ, "GOFLAGS": "-mod=mod"}
        target = folder.resolve() / "driver"
        subprocess.run(["go", "test", "-c", "-o", target, "."], cwd=copy, env=environment, check=True)


def _order_choices(copy: Path) -> None:
    router, promises = copy / "gossipsub.go", copy / "gossip_tracer.go"
    text, count = SHUFFLE.subn(lambda at: f"{at[1]}\t{ORDER[at[2]].format(at[3])}\n}}\n", router.read_text())
    assert count == len(ORDER)
    text = _changed(text, "for topic, peers := range gs.mesh {\n\t\tprunePeer",
                    "for _, topic := range slices.Sorted(maps.Keys(gs.mesh)) {\n\t\tpeers := gs.mesh[topic]\n"
                    "\t\tprunePeer")  # fmt: skip
    text = _changed(text, "for p := range gmap {\n\t\tgs.logger.Debug(\"LEAVE",
                    "for _, p := range slices.Sorted(maps.Keys(gmap)) {\n\t\tgs.logger.Debug(\"LEAVE")  # fmt: skip
    if '\t"maps"\n' not in text:
        text = _changed(text, RANDOM, '\t"maps"\n')
    router.write_text(text.replace(RANDOM, ""))
    text = _changed(promises.read_text(), "idx := rand.Intn(len(msgIDs))", "idx := 0")
    promises.write_text(_changed(text, RANDOM, ""))


def _changed(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
