"""Trace rows of a node: numbers for names, and rows for sent, dropped and received parts and other events.

Times are Unix microseconds. Peers and topics are numbered in the order of appearance. A message's number depends on
its id alone, so that the traces of several nodes can be joined. A node does not know transit times and hops.

The dictionaries do not contain every name that a peer sends. A message, its author and its topic get an entry when
the message is sent, dropped from a queue, published or delivered. A topic also gets an entry when this node or a peer
subscribes to it. The number of names that peers can add is bounded; rows have NONE in place of further names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from hearsay.core.language.actions import (
    CopyWithheld,
    Deliver,
    DuplicateReceived,
    MessagePublished,
    MessageRejected,
    NamedPeerDialled,
    OverlayChanged,
    PartDropped,
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
from hearsay.core.language.sizes import PartSize, part_sizes
from hearsay.core.language.sizes import rpc_framed_size as framed_size
from hearsay.libp2p.names.peer_id import PeerId, from_text, to_text
from hearsay.trace.language.event_rows import (
    Codes,
    Part,
    add_peer_row,
    deliver_row,
    drop_rpc_row,
    duplicate_row,
    join_row,
    leave_row,
    node_up_row,
    publish_row,
    recv_rpc_row,
    reject_row,
    remove_peer_row,
    send_rpc_row,
)
from hearsay.trace.language.schema import NONE, OVERLAY_EVENTS, TraceEvent, formed_row, number_of_id

MAX_PEERS = 65_536
"""Maximum names of peers. Authors, and peers that are only named in PRUNEs, get a name while less than half of this
number is used."""
MAX_OTHER_TOPICS = 1_000
"""Subscriptions of peers add no further names of topics when this number of topics has names."""


MessageFacts: TypeAlias = tuple[int, int, int, Micros, bytes]
"""Facts about a message: number of its topic, number of its author (or NONE), bytes of data, time of its first row,
and id."""

_PartRow: TypeAlias = Callable[[Micros, int, int, Part, int], Codes]
"""A function that returns the row of a sent or dropped part."""

TracedPart: TypeAlias = tuple[PartKind, int, int, MessageFacts | None, int, int, int]
"""A part of an RPC to send: kind, number of the topic, number of the message, facts about the message, bytes, count,
via. A number is NONE, and the facts are None, if the part has no topic or message."""


def message_number(message_id: Identifier) -> int:
    return number_of_id(_id_bytes(message_id))


def _id_bytes(message_id: Identifier) -> bytes:
    return message_id if isinstance(message_id, bytes) else str(message_id).encode()


class _Numbers:
    """The numbers of names, in the order in which the names first appear; `texts` has the names."""

    def __init__(self, texts: Sequence[str], read: Callable[[str], Identifier], show: Callable[[Identifier], str]):
        self.texts = list(texts)
        self._show = show
        self._numbers: dict[Identifier, int] = {read(text): number for number, text in enumerate(texts)}

    def find(self, name: Identifier) -> int:
        """Return the number of a name; NONE for an unknown name."""
        return self._numbers.get(name, NONE)

    def add(self, name: Identifier, most: int | None = None) -> int:
        """Return the number of a name. A new name gets the next number, or NONE if there are `most` names already."""
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


class TraceRows:
    """The trace rows of a node. Each row is passed to the watcher. The subclass `LiveTrace` also writes the rows."""

    def __init__(
        self,
        node: PeerId,
        clock: Callable[[], Micros],
        watcher: Callable[[Codes], None] | None = None,
        peers: Sequence[str] = (),
        topics: Sequence[str] = (),
    ) -> None:
        """Create the object. The names `peers` and `topics` get the first numbers. `watcher` gets every row."""
        self._clock = clock
        self._watcher = watcher
        self._peers = _Numbers(peers, from_text, _shown_peer)
        self._topics = _Numbers(topics, str, str)
        self._messages: dict[int, MessageFacts] = {}
        """Facts about the messages of the rows that are not written yet, by number of the message."""
        self._own = self._peers.add(node)

    def parts(self, rpc: Rpc, vias: Sequence[Via]) -> tuple[TracedPart, ...]:
        """Return the facts for the rows of an RPC that waits to be sent. The caller stores them until the RPC is sent
        or dropped, so that the messages need not stay in memory.
        """
        found: list[TracedPart] = []
        for place, (kind, topic, size, count) in _with_framing(rpc):
            message, via, facts = NONE, NONE, None
            if place is not None:
                message, facts = self._facts(rpc.messages[place])
                via = vias[place] if vias else NONE
            found.append((kind, self._number_of(topic), message, facts, size, count, via))
        return tuple(found)

    def sent(self, peer: PeerId, parts: Iterable[TracedPart]) -> None:
        self._part_rows(send_rpc_row, peer, parts, NONE)

    def dropped(self, peer: PeerId, parts: Iterable[TracedPart], reason: Reason) -> None:
        self._part_rows(drop_rpc_row, peer, parts, reason)

    def received(self, peer: PeerId, rpc: Rpc) -> None:
        own, remote, now = self._own, self._peer(peer), self._clock
        for place, (kind, topic, size, count) in _with_framing(rpc):
            message = NONE if place is None else message_number(rpc.messages[place].id)
            number = self._number_of(topic)
            if kind is PartKind.SUBSCRIBE and topic is not None:
                number = self._topics.add(topic, MAX_OTHER_TOPICS)
            self._row(recv_rpc_row(now(), own, remote, (kind, number, message, NONE, size, count, NONE)))

    def delivered(self, action: Deliver) -> None:
        sender = action.received_from
        remote = NONE if sender is None else self._peer(sender)
        topic, message = self._topics.add(action.message.topic), self._named(action.message)
        self._row(deliver_row(self._clock(), self._own, remote, topic, message, NONE, NONE))

    def happened(self, action: TraceAction) -> None:
        own = self._own
        match action:
            case PeerAdded() | PeerRemoved():
                connected = add_peer_row if isinstance(action, PeerAdded) else remove_peer_row
                self._row(connected(self._clock(), own, self._peer(action.peer)))
            case TopicJoined() | TopicLeft():
                membership = join_row if isinstance(action, TopicJoined) else leave_row
                self._row(membership(self._clock(), own, self._topics.add(action.topic)))
            case PeerGrafted() | PeerPruned():
                event = TraceEvent.GRAFT if isinstance(action, PeerGrafted) else TraceEvent.PRUNE
                self._link_row(event, action.peer, action.topic)
            case OverlayChanged():
                self._link_row(OVERLAY_EVENTS[action.change], action.peer, action.topic)
            case MessagePublished():
                topic, message = self._topics.add(action.message.topic), self._named(action.message)
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
                self._part_rows(drop_rpc_row, action.peer, copy, Reason.UNWANTED)
            case NamedPeerDialled():
                named = self._peers.add(action.peer, MAX_PEERS // 2)
                self._row(formed_row(TraceEvent.DIAL, self._clock(), own, named, self._topics.add(action.topic)))
            case PartDropped():
                remote, kind, count = self._peer(action.peer), action.kind, action.count
                self._row(reject_row(self._clock(), kind, own, remote, NONE, NONE, count, action.reason))

    def names(self) -> tuple[list[str], list[str]]:
        """Return copies of the names of peers and of topics; the index of a name is its number."""
        return self._peers.texts.copy(), self._topics.texts.copy()

    def begin(self) -> None:
        """Write the row of the node's start."""
        self._row(node_up_row(self._clock(), self._own))

    async def close(self) -> None:
        """Do nothing: this class keeps no rows."""

    def _peer(self, peer: Identifier) -> int:
        """Return the number of a connected peer, or NONE if there is no room for its name."""
        return self._peers.add(peer, MAX_PEERS)

    def _number_of(self, topic: Identifier | None) -> int:
        return NONE if topic is None else self._topics.find(topic)

    def _link_row(self, event: TraceEvent, peer: Identifier, topic: Identifier) -> None:
        self._row(formed_row(event, self._clock(), self._own, self._peer(peer), self._topics.add(topic)))

    def _part_rows(self, row: _PartRow, peer: Identifier, parts: Iterable[TracedPart], last: int) -> None:
        """Write a row for each part. `last` is the last argument of `row`: the reason of a drop, otherwise NONE."""
        own, remote, now = self._own, self._peer(peer), self._clock
        for kind, topic, message, facts, size, count, via in parts:
            if facts is not None and self._has_room:
                self._messages.setdefault(message, facts)
            self._row(row(now(), own, remote, (kind, topic, message, NONE, size, count, via), last))

    def _named(self, message: Message) -> int:
        """Return a message's number. If its row can be kept, add the facts about the message to `_messages`."""
        if not self._has_room:
            return message_number(message.id)
        number, facts = self._facts(message)
        self._messages.setdefault(number, facts)
        return number

    def _facts(self, message: Message) -> tuple[int, MessageFacts]:
        """Return a message's number and its facts."""
        number = message_number(message.id)
        known = self._messages.get(number)
        if known is None:
            author = NONE if message.source is None else self._peers.add(message.source, MAX_PEERS // 2)
            topic, size = self._topics.add(message.topic), len(message.data)
            known = topic, author, size, self._clock(), _id_bytes(message.id)
        return number, known

    def _row(self, codes: Codes) -> None:
        if self._watcher is not None:
            self._watcher(codes)

    @property
    def _has_room(self) -> bool:
        """Return True if another row can be kept, so that its message needs an entry in the dictionary."""
        return False


def _with_framing(rpc: Rpc) -> Iterator[tuple[int | None, PartSize]]:
    """Yield for each part of an RPC its `PartSize` and, before it, the index of its message, or None without one.

    The size of the first part includes the bytes of the RPC that belong to no part.
    """
    parts = part_sizes(rpc)
    framing = framed_size(rpc, parts) - sum([size for _, _, size, _ in parts]) if parts else 0
    first_message = len(rpc.subscriptions)
    for place, (kind, topic, size, count) in enumerate(parts):
        message = place - first_message if kind is PartKind.PUBLISH else None
        yield message, (kind, topic, size + (framing if not place else 0), count)
