"""The names of peers and topics in a run: rows hold numbers, people read names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hearsay.trace.folder.arrow import read_table
from hearsay.trace.language.errors import RunFolderError
from hearsay.trace.write.run_folder import DICTIONARIES


@dataclass(frozen=True, slots=True)
class Names:
    peers: Mapping[int, str] = field(default_factory=dict[int, str])
    topics: Mapping[int, str] = field(default_factory=dict[int, str])

    def peer(self, peer: int) -> str:
        return self.peers.get(peer, str(peer))

    def topic(self, topic: int) -> str:
        return self.topics.get(topic, str(topic))

    def find_peer(self, wanted: int | str) -> int:
        return _find(self.peers, wanted, "peer")

    def find_topic(self, wanted: int | str) -> int:
        return _find(self.topics, wanted, "topic")


def load_names(run: Path) -> Names:
    """The names in the run's dictionaries; a dictionary that is not there names nothing."""
    return Names(_load(run, "peers", "peer"), _load(run, "topics", "topic"))


def known_numbers(run: Path, dictionary: str, key: str) -> frozenset[int] | None:
    """The peers, topics or messages that a run's dictionary lists; None if it has none."""
    path = run / DICTIONARIES / f"{dictionary}.parquet"
    if not path.exists():
        return None
    return frozenset(read_table(path, [key])[key])


def _load(run: Path, dictionary: str, key: str) -> dict[int, str]:
    path = run / DICTIONARIES / f"{dictionary}.parquet"
    if not path.exists():
        return {}
    table = read_table(path, [key], ["name"])
    pairs = zip(table[key], table["name"], strict=True)
    return {number: name for number, name in pairs if number is not None and name is not None}


def _find(names: Mapping[int, str], wanted: int | str, what: str) -> int:
    if isinstance(wanted, int):
        return wanted
    for number, name in names.items():
        if name == wanted:
            return number
    if wanted.isdecimal():
        return int(wanted)
    raise RunFolderError(f"no {what} is called {wanted!r} in this run")
