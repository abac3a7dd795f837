"""Signed addresses that travel with the names of peers, so that whoever hears a name can dial it.

Episub names peers in many parts. Their signed records go along in a field of their own of the control message, which
the router never sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from hearsay.core.language.episub_parts import EpisubJoin, EpisubPart, ForwardJoin, Nodes, Shuffle, ShuffleReply
from hearsay.core.language.identifiers import Identifier
from hearsay.core.language.rpc import EXPERIMENTAL_FIELDS, Control, Extension, Rpc

RECORD_FIELD = EXPERIMENTAL_FIELDS + 4096
MAX_RECORDS = 64
"""Read from one RPC; each costs the check of a signature."""


def with_records(control: Control, record_of: Callable[[bytes], bytes | None]) -> Control:
    """The control message with the records of the peers that it names."""
    named = sorted({peer for part in control.episub for peer in _named(part) if isinstance(peer, bytes)})
    records = [record_of(peer) for peer in named[:MAX_RECORDS]]
    added = tuple(Extension(RECORD_FIELD, record) for record in records if record is not None)
    return replace(control, extensions=control.extensions + added)


def take_records(rpc: Rpc) -> tuple[Rpc, list[bytes]]:
    """The RPC without the records that came with it, and those, as many as are read."""
    control = rpc.control
    if control is None or not any(extension.field == RECORD_FIELD for extension in control.extensions):
        return rpc, []
    records = [extension.payload for extension in control.extensions if extension.field == RECORD_FIELD]
    others = tuple(extension for extension in control.extensions if extension.field != RECORD_FIELD)
    return replace(rpc, control=replace(control, extensions=others)), records[:MAX_RECORDS]


def _named(part: EpisubPart) -> Iterator[Identifier]:
    match part:
        case Nodes() | ShuffleReply():
            yield from part.peers
        case EpisubJoin() | ForwardJoin():
            yield part.peer
        case Shuffle():
            yield part.peer
            yield from part.peers
        case _:
            pass
