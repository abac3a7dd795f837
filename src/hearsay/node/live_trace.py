"""A live node's trace, in the language of `hearsay.trace`.

Rows gather in memory and are written every few seconds, or when they are many, as a run folder of their own below
the trace's directory: `00000`, `00001`, … Each is whole and readable when its manifest is there, so a node that is
killed loses the rows of the last interval and nothing else; its successor says `node_down` for it, with the reason
`lost`. A node that closes seals the
directory, which then is one run, with all rows of a message in one file (`hearsay.trace.series.run_series`). Writing
happens in a thread.

Times are Unix microseconds. Peers and topics are numbered as they appear, with dictionaries in every folder; a
message's number is made of its id alone, so that the traces of several nodes fit together. What an RPC's
flight took is not known here, and neither are hops.

What peers say before the router has accepted it leaves numbers in rows, and no names: a message is named when it is
sent, published or delivered, its author then too, a topic when this node or a peer subscribes to it. Names are
bounded; who comes when there are too many is NONE in the rows. Rows wait while the disk is slow, so many and no
more; what is lost beyond that is counted, and the next folder, and so the whole, says that it is not complete.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from logging import getLogger
from pathlib import Path
from typing import TypeAlias

import numpy as np

from hearsay.core.language.actions import (
    CopyWithheld,
    Deliver,
    DuplicateReceived,
    LinkEager,
    LinkLazy,
    MessagePublished,
    MessageRejected,
    NamedPeerDialled,
    NeighborDown,
    NeighborUp,
    PartDropped,
    PassiveAdded,
    PassiveRemoved,
    PeerAdded,
    PeerGrafted,
    PeerPruned,
    PeerRemoved,
    Reason,
    TopicJoined,
    TopicLeft,
    TraceAction,
    Via,
)
from hearsay.core.language.identifiers import Identifier, Micros
from hearsay.core.language.rpc import Message, PartKind, Rpc
from hearsay.core.language.sizes import PartSize, framed_size, part_sizes
from hearsay.libp2p.names.peer_id import PeerId, from_text, to_text
from hearsay.trace.folder.arrow import share_the_heap
from hearsay.trace.language.event_rows import (
    Codes,
    add_peer_row,
    deliver_row,
    dial_row,
    drop_rpc_row,
    duplicate_row,
    graft_row,
    join_row,
    leave_row,
    node_down_row,
    node_up_row,
    prune_row,
    publish_row,
    recv_rpc_row,
    reject_row,
    remove_peer_row,
    send_rpc_row,
)
from hearsay.trace.language.overlay_rows import OVERLAY_ROWS
from hearsay.trace.language.rows import RowBuffer, Rows, pack_row
from hearsay.trace.language.schema import NONE, Column
from hearsay.trace.series.goodbye import lost_at
from hearsay.trace.series.run_series import RunSeries, numbered_folders, write_names
from hearsay.trace.write.writer import TraceWriter

_log = getLogger(__name__)
INTERVAL_S = 5.0
MAX_ROWS = 100_000
MAX_WAITING_ROWS = 200_000
MAX_PEERS = 65_536
"""Names of peers; those that are known as authors only, or because a PRUNE named them, may take half of it."""
MAX_OTHER_TOPICS = 1_000
"""Names of topics when another topic is named that is not the node's own."""


_MessageFacts: TypeAlias = tuple[int, int, int, Micros, bytes]
"""Topic, author, bytes of data, when it was accepted here, its id."""

_PartRow: TypeAlias = Callable[[Micros, int, int, int, int, int, int, int, int, int, int], Codes]
"""Makes the row of a part that is sent or dropped."""

TracedPart: TypeAlias = tuple[PartKind, int, int, _MessageFacts | None, int, int, int]
"""Of an RPC that is to be sent: kind, topic, message and what is known of it, bytes, count, via."""


def message_number(message_id: Identifier) -> int:
    """63 bits of a hash of the id, the same at every node."""
    return int.from_bytes(blake2b(_id_bytes(message_id), digest_size=8).digest(), "big") >> 1


def _id_bytes(message_id: Identifier) -> bytes:
    return message_id if isinstance(message_id, bytes) else str(message_id).encode()


class _Numbers:
    """Numbers for names, as they appear."""

    def __init__(self, texts: Sequence[str], read: Callable[[str], Identifier], show: Callable[[Identifier], str]):
        self.texts = list(texts)
        self._show = show
        self._numbers: dict[Identifier, int] = {read(text): number for number, text in enumerate(texts)}

    def known(self, name: Identifier) -> int:
        return self._numbers.get(name, NONE)

    def of(self, name: Identifier, most: int | None = None) -> int:
        """A new name gets a number while there are fewer than `most`."""
        number = self._numbers.get(name)
        if number is None:
            number = len(self.texts)
            if most is not None and number >= most:
                return NONE
            self._numbers[name] = number
            self.texts.append(self._show(name))
        return number


def _shown_peer(peer: Identifier) -> str:
    return to_text(peer) if isinstance(peer, bytes) else str(peer)


class LiveTrace:
    def __init__(
        self,
        directory: Path,
        node: PeerId,
        clock: Callable[[], Micros],
        agent: str,
        router: str | None = None,
        *,
        return_memory: bool = True,
    ) -> None:
        """With `return_memory` Arrow, too, takes memory from where what is free goes back to the system."""
        if return_memory:
            share_the_heap()
        self._series = RunSeries(directory, router)
        lost_us = _lost_us(directory)
        self._clock = clock
        self._agent = agent
        self._rows = RowBuffer()
        named = self._series.names()
        self._peers = _Numbers(_in_order(named.peers), from_text, _shown_peer)
        self._topics = _Numbers(_in_order(named.topics), str, str)
        self._lost = 0
        """Rows for which there was no room, or whose folder could not be written, since the last folder."""
        self.rows_lost = 0
        """… in all."""
        self._messages: dict[int, _MessageFacts] = {}
        self._own = self._peers.of(node)
        self._writing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        if lost_us is not None:
            self._row(node_down_row(lost_us, self._own, Reason.LOST))
        self._row(node_up_row(clock(), self._own))
        self._arm()

    def parts(self, rpc: Rpc, vias: Sequence[Via]) -> tuple[TracedPart, ...]:
        """What the trace will have to know of an RPC when it has left; its messages need not be kept for that."""
        found: list[TracedPart] = []
        for place, (kind, topic, size, count) in _with_framing(rpc):
            message, via, facts = NONE, NONE, None
            if place is not None:
                message, facts = self._facts(rpc.messages[place])
                via = vias[place] if vias else NONE
            found.append((kind, self._number_of(topic), message, facts, size, count, via))
        return tuple(found)

    def sent(self, peer: PeerId, parts: Iterable[TracedPart]) -> None:
        self._parts(send_rpc_row, peer, parts, NONE)

    def dropped(self, peer: PeerId, parts: Iterable[TracedPart], reason: Reason) -> None:
        self._parts(drop_rpc_row, peer, parts, reason)

    def received(self, peer: PeerId, rpc: Rpc) -> None:
        own, remote, now = self._own, self._peer(peer), self._clock
        for place, (kind, topic, size, count) in _with_framing(rpc):
            message = NONE if place is None else message_number(rpc.messages[place].id)
            number = self._number_of(topic)
            if kind is PartKind.SUBSCRIBE and topic is not None:
                number = self._topics.of(topic, MAX_OTHER_TOPICS)
            self._row(recv_rpc_row(now(), kind, own, remote, number, message, NONE, size, count, NONE))

    def delivered(self, action: Deliver) -> None:
        sender = action.received_from
        remote = NONE if sender is None else self._peer(sender)
        topic, message = self._topics.of(action.message.topic), self._named(action.message)
        self._row(deliver_row(self._clock(), self._own, remote, topic, message, NONE, NONE))

    def happened(self, action: TraceAction) -> None:
        own = self._own
        match action:
            case PeerAdded() | PeerRemoved():
                connected = add_peer_row if isinstance(action, PeerAdded) else remove_peer_row
                self._row(connected(self._clock(), own, self._peer(action.peer)))
            case TopicJoined() | TopicLeft():
                membership = join_row if isinstance(action, TopicJoined) else leave_row
                self._row(membership(self._clock(), own, self._topics.of(action.topic)))
            case PeerGrafted() | PeerPruned():
                self._link(graft_row if isinstance(action, PeerGrafted) else prune_row, action.peer, action.topic)
            case NeighborUp() | NeighborDown() | PassiveAdded() | PassiveRemoved() | LinkEager() | LinkLazy():
                self._link(OVERLAY_ROWS[type(action)], action.peer, action.topic)
            case MessagePublished():
                topic, message = self._topics.of(action.message.topic), self._named(action.message)
                self._row(publish_row(self._clock(), own, topic, message, 0, len(action.message.data)))
            case DuplicateReceived():
                remote = NONE if action.peer is None else self._peer(action.peer)
                topic, message = self._number_of(action.topic), message_number(action.message_id)
                self._row(duplicate_row(self._clock(), own, remote, topic, message, NONE, NONE))
            case MessageRejected():
                remote, kind = self._peer(action.peer), PartKind.PUBLISH
                topic, message = self._number_of(action.message.topic), message_number(action.message.id)
                self._row(reject_row(self._clock(), kind, own, remote, topic, message, 1, action.reason))
            case CopyWithheld():
                copy = self.parts(Rpc(messages=(action.message,)), (action.via,))
                self._parts(drop_rpc_row, action.peer, copy, Reason.UNWANTED)
            case NamedPeerDialled():
                named = self._peers.of(action.peer, MAX_PEERS // 2)
                self._row(dial_row(self._clock(), own, named, self._topics.of(action.topic)))
            case PartDropped():
                remote, kind, count = self._peer(action.peer), action.kind, action.count
                self._row(reject_row(self._clock(), kind, own, remote, NONE, NONE, count, action.reason))

    async def close(self) -> None:
        """Write what is left and seal the whole; once, however often it is called."""
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await self._written()
        if len(self._rows) >= MAX_ROWS:
            self._write()
        self._row(node_down_row(self._clock(), self._own, NONE))
        await self._written()
        self._write()
        await self._written()
        self._writing = asyncio.ensure_future(asyncio.to_thread(self._series.seal, *self._names(), self._agent))
        self._writing.add_done_callback(partial(self._finished, 0))
        await self._written()

    def _names(self) -> tuple[list[str], list[str]]:
        """The names of peers and topics so far."""
        return self._peers.texts.copy(), self._topics.texts.copy()

    async def _written(self) -> None:
        """Until the folder in the making is there. A full disk costs the trace, not the node."""
        if self._writing is not None:
            await asyncio.wait([self._writing])

    def _peer(self, peer: Identifier) -> int:
        """Of one that is connected."""
        return self._peers.of(peer, MAX_PEERS)

    def _number_of(self, topic: Identifier | None) -> int:
        return NONE if topic is None else self._topics.known(topic)

    def _link(self, row: Callable[[Micros, int, int, int], Codes], peer: Identifier, topic: Identifier) -> None:
        self._row(row(self._clock(), self._own, self._peer(peer), self._topics.of(topic)))

    def _parts(self, row: _PartRow, peer: Identifier, parts: Iterable[TracedPart], last: int) -> None:
        """`last` is what only one of the two kinds of rows has."""
        own, remote, now = self._own, self._peer(peer), self._clock
        for kind, topic, message, facts, size, count, via in parts:
            if facts is not None and self._has_room:
                self._messages.setdefault(message, facts)
            self._row(row(now(), kind, own, remote, topic, message, NONE, size, count, via, last))

    def _named(self, message: Message) -> int:
        """A message's number; the next folder says what message that is, if it has room for the row."""
        if not self._has_room:
            return message_number(message.id)
        number, facts = self._facts(message)
        self._messages.setdefault(number, facts)
        return number

    def _facts(self, message: Message) -> tuple[int, _MessageFacts]:
        """A message's number, and what the dictionary says of it."""
        number = message_number(message.id)
        known = self._messages.get(number)
        if known is None:
            author = NONE if message.source is None else self._peers.of(message.source, MAX_PEERS // 2)
            topic, size = self._topics.of(message.topic), len(message.data)
            known = topic, author, size, self._clock(), _id_bytes(message.id)
        return number, known

    def _row(self, codes: Codes) -> None:
        if not self._has_room:
            self._lose(1)
            return
        self._rows.values.frombytes(pack_row(*codes))
        if len(self._rows) >= MAX_ROWS:
            self._write()

    @property
    def _has_room(self) -> bool:
        return len(self._rows) < MAX_WAITING_ROWS

    def _lose(self, rows: int) -> None:
        if rows and not self._lost:
            _log.warning("rows of the trace are lost: the disk takes them too slowly, or not at all")
        self._lost += rows
        self.rows_lost += rows

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(INTERVAL_S, self._tick)

    def _tick(self) -> None:
        self._write()
        self._arm()

    def _write(self) -> None:
        """Put the rows so far into a folder of their own."""
        if not len(self._rows) or (self._writing is not None and not self._writing.done()):
            return
        rows, messages = self._rows.to_numpy(), self._messages
        self._rows.clear()
        self._messages = {}
        complete, self._lost = not self._lost, 0
        names = self._names()
        work = asyncio.to_thread(_write_folder, self._series, rows, *names, messages, self._agent, complete)
        self._writing = asyncio.ensure_future(work)
        self._writing.add_done_callback(partial(self._finished, len(rows)))

    def _finished(self, rows: int, writing: asyncio.Future[None]) -> None:
        if not writing.cancelled() and writing.exception() is not None:
            _log.error("the trace cannot be written: %s", writing.exception())
            self._lose(rows)


def _lost_us(directory: Path) -> Micros | None:
    """When the predecessor was killed, if there is one that was."""
    pieces = numbered_folders(directory)
    return lost_at(pieces[-1]) if pieces else None


def _in_order(names: Mapping[int, str]) -> list[str]:
    return [names[number] for number in range(len(names))]


def _with_framing(rpc: Rpc) -> Iterator[tuple[int | None, PartSize]]:
    """The parts of an RPC, each with which message it is; the first carries the bytes of the framing."""
    parts = part_sizes(rpc)
    framing = framed_size(rpc, parts) - sum([size for _, _, size, _ in parts]) if parts else 0
    first_message = len(rpc.subscriptions)
    for place, (kind, topic, size, count) in enumerate(parts):
        message = place - first_message if kind is PartKind.PUBLISH else None
        yield message, (kind, topic, size + (framing if not place else 0), count)


def _write_folder(
    series: RunSeries,
    rows: Rows,
    peers: list[str],
    topics: list[str],
    messages: dict[int, _MessageFacts],
    agent: str,
    complete: bool,
) -> None:
    series.write_names(peers, topics, agent)
    folder = series.next_folder()
    size = max(1, len(rows))
    with TraceWriter(folder.path, spill_rows=size, row_group_rows=size) as writer:
        writer.add(rows)
        written = writer.close()
    known = [(number, *messages[number]) for number in sorted(messages)]
    message, topic, author, sizes, times, ids = zip(*known, strict=True) if known else [()] * 6
    named: set[int] = {0, *author, *np.unique(rows[:, [Column.PEER, Column.REMOTE]]).tolist()} - {NONE}
    spoken_of: set[int] = {*topic, *np.unique(rows[:, Column.TOPIC]).tolist()} - {NONE}
    write_names(
        folder,
        {number: peers[number] for number in sorted(named)},
        {number: topics[number] for number in sorted(spoken_of)},
        agent,
        series.router,
    )
    folder.write_messages(message, topic, author, sizes, times, [each.hex() for each in ids])
    folder.write_manifest(written, seed=None, complete=complete)
