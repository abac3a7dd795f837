"""A live node's trace, in the language of `hearsay.trace`.

Rows gather in memory and are written every few seconds, or when they are many, as a run folder of their own below
the trace's directory: `00000`, `00001`, … Each is whole and readable when its manifest is there, so a node that is
killed loses the rows of the last interval and nothing else; its successor says `node_down` for it, with the reason
`lost`. A node that closes seals the
directory, which then is one run, with all rows of a message in one file (`hearsay.trace.run_series`). Writing
happens in a thread.

Times are Unix microseconds. Peers and topics are numbered as they appear, with dictionaries in every folder; a
message's number is made of its id alone, so that the traces of several nodes fit together. What an RPC's
flight took is not known here, and neither are hops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from logging import getLogger
from pathlib import Path
from typing import TypeAlias

from hearsay.core.actions import (
    Deliver,
    DuplicateReceived,
    LinkEager,
    LinkLazy,
    MessagePublished,
    MessageRejected,
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
from hearsay.core.identifiers import Identifier, Micros
from hearsay.core.rpc import Message, PartKind, Rpc
from hearsay.core.sizes import framed_size, part_sizes
from hearsay.libp2p.peer_id import PeerId, from_text, to_text
from hearsay.trace.goodbye import lost_at
from hearsay.trace.rows import RowBuffer, Rows, pack_row
from hearsay.trace.run_series import RunSeries, numbered_folders, write_names
from hearsay.trace.schema import NONE, OVERLAY_EVENTS, TraceEvent
from hearsay.trace.writer import TraceWriter

_log = getLogger(__name__)
INTERVAL_S = 5.0
MAX_ROWS = 200_000


_MessageFacts: TypeAlias = tuple[int, int, int, Micros, bytes]
"""Topic, author, bytes of data, when it was first seen here, its id."""


def message_number(message_id: Identifier) -> int:
    """63 bits of a hash of the id, the same at every node."""
    return int.from_bytes(blake2b(_id_bytes(message_id), digest_size=8).digest(), "big") >> 1


def _id_bytes(message_id: Identifier) -> bytes:
    return message_id if isinstance(message_id, bytes) else str(message_id).encode()


class _Numbers:
    """Numbers for names, as they appear."""

    def __init__(self, names: Iterable[Identifier] = ()) -> None:
        self.names: list[Identifier] = list(names)
        self._numbers: dict[Identifier, int] = {name: number for number, name in enumerate(self.names)}

    def of(self, name: Identifier) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.names)
            self.names.append(name)
        return number


class LiveTrace:
    def __init__(
        self, directory: Path, node: PeerId, clock: Callable[[], Micros], agent: str, router: str | None = None
    ) -> None:
        self._series = RunSeries(directory, router)
        lost_us = _lost_us(directory)
        self._clock = clock
        self._agent = agent
        self._rows = RowBuffer()
        named = self._series.names()
        self._peers = _Numbers(map(from_text, _in_order(named.peers)))
        self._topics = _Numbers(_in_order(named.topics))
        self._messages: dict[int, _MessageFacts] = {}
        self._own = self._peers.of(node)
        self._writing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        if lost_us is not None:
            self._row(TraceEvent.NODE_DOWN, reason=Reason.LOST, time_us=lost_us)
        self._row(TraceEvent.NODE_UP)
        self._arm()

    def sent(self, peer: PeerId, rpc: Rpc, vias: Sequence[Via]) -> None:
        self._parts(TraceEvent.SEND_RPC, peer, rpc, vias, NONE)

    def received(self, peer: PeerId, rpc: Rpc) -> None:
        self._parts(TraceEvent.RECV_RPC, peer, rpc, (), NONE)

    def dropped(self, peer: PeerId, rpc: Rpc) -> None:
        self._parts(TraceEvent.DROP_RPC, peer, rpc, (), Reason.QUEUE_FULL)

    def delivered(self, action: Deliver) -> None:
        message, sender = action.message, action.received_from
        remote = NONE if sender is None else self._peers.of(sender)
        self._row(
            TraceEvent.DELIVER, remote=remote, topic=self._topics.of(message.topic), message=self._known(message)
        )

    def happened(self, action: TraceAction) -> None:
        match action:
            case PeerAdded() | PeerRemoved():
                event = TraceEvent.ADD_PEER if isinstance(action, PeerAdded) else TraceEvent.REMOVE_PEER
                self._row(event, remote=self._peers.of(action.peer))
            case TopicJoined() | TopicLeft():
                event = TraceEvent.JOIN if isinstance(action, TopicJoined) else TraceEvent.LEAVE
                self._row(event, topic=self._topics.of(action.topic))
            case PeerGrafted() | PeerPruned():
                event = TraceEvent.GRAFT if isinstance(action, PeerGrafted) else TraceEvent.PRUNE
                self._row(event, remote=self._peers.of(action.peer), topic=self._topics.of(action.topic))
            case NeighborUp() | NeighborDown() | PassiveAdded() | PassiveRemoved() | LinkEager() | LinkLazy():
                event = OVERLAY_EVENTS[type(action)]
                self._row(event, remote=self._peers.of(action.peer), topic=self._topics.of(action.topic))
            case MessagePublished():
                message = action.message
                topic, size = self._topics.of(message.topic), len(message.data)
                self._row(TraceEvent.PUBLISH, topic=topic, message=self._known(message), hops=0, size=size)
            case DuplicateReceived():
                remote = NONE if action.peer is None else self._peers.of(action.peer)
                topic, message = self._topics.of(action.topic), message_number(action.message_id)
                self._row(TraceEvent.DUPLICATE, remote=remote, topic=topic, message=message)
            case MessageRejected():
                self._row(
                    TraceEvent.REJECT,
                    kind=PartKind.PUBLISH,
                    remote=self._peers.of(action.peer),
                    topic=self._topics.of(action.message.topic),
                    message=self._known(action.message),
                    count=1,
                    reason=action.reason,
                )
            case PartDropped():
                remote = self._peers.of(action.peer)
                kind, count, reason = action.kind, action.count, action.reason
                self._row(TraceEvent.REJECT, kind=kind, remote=remote, count=count, reason=reason)

    async def close(self) -> None:
        """Write what is left and seal the whole; once, however often it is called."""
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._row(TraceEvent.NODE_DOWN)
        await self._written()
        self._write()
        await self._written()
        names = self._named()
        self._writing = asyncio.ensure_future(asyncio.to_thread(self._series.seal, *names, self._agent))
        self._writing.add_done_callback(_report)
        await self._written()

    def _named(self) -> tuple[list[str], list[str]]:
        """The names of peers and topics so far."""
        peers = [to_text(peer) if isinstance(peer, bytes) else str(peer) for peer in self._peers.names]
        return peers, [str(topic) for topic in self._topics.names]

    async def _written(self) -> None:
        """Until the folder in the making is there. A full disk costs the trace, not the node."""
        if self._writing is not None:
            await asyncio.wait([self._writing])

    def _parts(self, event: TraceEvent, peer: PeerId, rpc: Rpc, vias: Sequence[Via], reason: int) -> None:
        parts = part_sizes(rpc)
        if not parts:
            return
        framing = framed_size(rpc, parts) - sum([size for _, _, size, _ in parts])
        remote = self._peers.of(peer)
        first_message = len(rpc.subscriptions)
        for place, (kind, topic, size, count) in enumerate(parts):
            message = via = NONE
            if kind is PartKind.PUBLISH:
                message = self._known(rpc.messages[place - first_message])
                via = vias[place - first_message] if vias else NONE
            self._row(
                event,
                kind=kind,
                remote=remote,
                topic=NONE if topic is None else self._topics.of(topic),
                message=message,
                size=size + (framing if not place else 0),
                count=count,
                via=via,
                reason=reason,
            )

    def _known(self, message: Message) -> int:
        """A message's number; it enters the dictionary of this interval."""
        number = message_number(message.id)
        if number not in self._messages:
            author = NONE if message.source is None else self._peers.of(message.source)
            topic, size = self._topics.of(message.topic), len(message.data)
            self._messages[number] = topic, author, size, self._clock(), _id_bytes(message.id)
        return number

    def _row(
        self,
        event: int,
        *,
        kind: int = NONE,
        remote: int = NONE,
        topic: int = NONE,
        message: int = NONE,
        hops: int = NONE,
        size: int = NONE,
        count: int = NONE,
        via: int = NONE,
        reason: int = NONE,
        time_us: Micros | None = None,
    ) -> None:
        time = self._clock() if time_us is None else time_us
        row = pack_row(time, event, kind, self._own, remote, topic, message, hops, size, count, via, NONE, reason)
        self._rows.values.frombytes(row)
        if len(self._rows) >= MAX_ROWS:
            self._write()

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
        work = asyncio.to_thread(_write_folder, self._series, rows, *self._named(), messages, self._agent)
        self._writing = asyncio.ensure_future(work)
        self._writing.add_done_callback(_report)


def _report(writing: asyncio.Future[None]) -> None:
    if not writing.cancelled() and writing.exception() is not None:
        _log.error("the trace cannot be written: %s", writing.exception())


def _lost_us(directory: Path) -> Micros | None:
    """When the predecessor was killed, if there is one that was."""
    pieces = numbered_folders(directory)
    return lost_at(pieces[-1]) if pieces else None


def _in_order(names: Mapping[int, str]) -> list[str]:
    return [names[number] for number in range(len(names))]


def _write_folder(
    series: RunSeries,
    rows: Rows,
    peers: list[str],
    topics: list[str],
    messages: dict[int, _MessageFacts],
    agent: str,
) -> None:
    series.write_names(peers, topics, agent)
    folder = series.next_folder()
    size = max(1, len(rows))
    with TraceWriter(folder.path, spill_rows=size, row_group_rows=size) as writer:
        writer.add(rows)
        written = writer.close()
    write_names(folder, peers, topics, agent, series.router)
    known = [(number, *messages[number]) for number in sorted(messages)]
    message, topic, author, sizes, times, ids = zip(*known, strict=True) if known else [()] * 6
    folder.write_messages(message, topic, author, sizes, times, [each.hex() for each in ids])
    folder.write_manifest(written, seed=None, complete=True)
