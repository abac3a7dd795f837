"""Rows as lines for people, with the names of peers and topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hearsay.text.escape import escape
from hearsay.trace.folder.arrow import read_table
from hearsay.trace.language.errors import RunFolderError
from hearsay.trace.language.formed_rows import number_of
from hearsay.trace.language.schema import FORMS, PartKind, TraceEvent, TraceRow, Via, wire_name
from hearsay.trace.write.run_folder import DICTIONARIES

SHORTENED = "…"
"""Replaces the beginning of a long name."""
_MAX_NAME_LENGTH, _SHOWN_LENGTH = 24, 8


@dataclass(frozen=True, slots=True)
class Names:
    peers: Mapping[int, str] = field(default_factory=dict[int, str])
    topics: Mapping[int, str] = field(default_factory=dict[int, str])

    def peer(self, peer: int) -> str:
        return self.peers.get(peer, str(peer))

    def short_peer(self, peer: int) -> str:
        """Return the name; of a long name, return only the end, which `--node` accepts."""
        name = escape(self.peer(peer))
        return name if len(name) <= _MAX_NAME_LENGTH else f"{SHORTENED}{name[-_SHOWN_LENGTH:]}"

    def topic(self, topic: int) -> str:
        return self.topics.get(topic, str(topic))

    def find_peer(self, wanted: int | str) -> int:
        return _find(self.peers, wanted, "peer")

    def find_topic(self, wanted: int | str) -> int:
        return _find(self.topics, wanted, "topic")


def load_names(run: Path) -> Names:
    """Return the names in the run's dictionaries; a missing dictionary counts as empty."""
    return Names(_load(run, "peers", "peer"), _load(run, "topics", "topic"))


def known_numbers(run: Path, dictionary: str, key: str) -> frozenset[int] | None:
    """Return the numbers in a run's dictionary of peers, topics or messages; None if the dictionary is missing."""
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


_ARROWS = {
    TraceEvent.SEND_RPC: "→",
    TraceEvent.DROP_RPC: "⇥",
    TraceEvent.RECV_RPC: "←",
    TraceEvent.DELIVER: "←",
    TraceEvent.DUPLICATE: "←",
    TraceEvent.REJECT: "←",
}


def show(row: TraceRow, names: Names | None = None) -> str:
    """Return the row as a line."""
    known = names or Names()
    words = [f"{show_time(row.time_us)}  {_node(row.peer, known):<9}", _what(row)]
    if row.remote is not None:
        words.append(f"{_ARROWS.get(row.event, '↔')} {escape(known.peer(row.remote))}")
    details: list[str] = []
    if row.topic is not None:
        details.append(f"topic {escape(known.topic(row.topic))}")
    if row.message is not None:
        details.append(f"message {row.message}")
    if row.hops is not None:
        details.append(f"hops {row.hops}")
    if row.count is not None:
        details.append(f"count {row.count}")
    if row.via is not None:
        details.append(f"via {_readable(row.via)}")
    if row.reason is not None:
        details.append(f"reason {wire_name(row.reason).replace('_', ' ')}")
    if row.bytes is not None and FORMS[row.event].trace_class == "score":
        details.append(f"{number_of(row.bytes):.6g}")
    elif row.bytes is not None:
        details.append(f"{row.bytes} B")
    if row.delay_us is not None:
        details.append(f"({row.delay_us // 1000}.{row.delay_us % 1000 // 100} ms)")
    return "  ".join([f"{words[0]} {' '.join(words[1:]):<24}", *details]).rstrip()


def show_time(time_us: int) -> str:
    """Return seconds with six decimals, aligned up to about a day."""
    return f"{time_us // 1_000_000:>5}.{time_us % 1_000_000:06d}s"


def _node(peer: int | None, names: Names) -> str:
    return "" if peer is None else f"node {escape(names.peer(peer))}"


def _what(row: TraceRow) -> str:
    verb = row.event.name.lower().removesuffix("_rpc").replace("_", " ")
    return verb if row.kind is None else f"{verb} {_readable(row.kind)}"


def _readable(code: PartKind | Via) -> str:
    return wire_name(code).replace("_", "-")
