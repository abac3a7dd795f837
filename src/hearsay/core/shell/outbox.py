"""The outbox: the parts that one `handle` call sends. At the end of the call they are packed into RPCs.

Rules (r1, "Control Message Piggybacking"; guide, "Network packets"):

* OUT-1: A call sends at most one RPC to each peer, in ascending order of peers; IDONTWANTs, partial messages and test
  messages have RPCs of their own. The parts of an RPC have the order in which the receiver handles them, then the
  order of topic and id. No part waits for a later call.
* OUT-2: Without coalescing, as in simsub, every part is an RPC of its own. The features come first, since a peer must
  receive the features first (EXT-1); the other parts follow in the order of OUT-1.
* OUT-3: An IDONTWANT is sent before all other parts: it is useful only as long as the peer has not sent the message.

Nearly every call sends only one message, or only the gossip of one topic, to a few peers. These peers share one `Rpc`
object, which is made at once and needs no packing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hearsay.core.language.actions import Action, Send, Via, fast_init
from hearsay.core.language.episub_parts import EpisubPart
from hearsay.core.language.identifiers import MessageId, PeerId, TopicId
from hearsay.core.language.rpc import (
    Control,
    Extension,
    ExtensionTest,
    Features,
    Graft,
    IDontWant,
    IHave,
    IWant,
    Message,
    Partial,
    PartialUse,
    Prune,
    Rpc,
    Subscription,
)

T = TypeVar("T")

_send = fast_init(Send)
_rpc = fast_init(Rpc)
_control = fast_init(Control)
_ihave = fast_init(IHave)
_subscription = fast_init(Subscription)


@dataclass(slots=True)
class _Parcel:
    """The parts for one peer, except IDONTWANTs, partial messages and test messages."""

    subscriptions: dict[TopicId, Subscription] = field(default_factory=lambda: {})
    messages: dict[MessageId, tuple[Message, Via]] = field(default_factory=lambda: {})
    grafts: set[TopicId] = field(default_factory=lambda: set())
    prunes: dict[TopicId, Prune] = field(default_factory=lambda: {})
    ihaves: dict[TopicId, tuple[MessageId, ...]] = field(default_factory=lambda: {})
    wanted: set[MessageId] = field(default_factory=lambda: set())
    extensions: list[Extension] = field(default_factory=lambda: [])
    features: tuple[Features, ...] = ()
    episub: list[EpisubPart] = field(default_factory=lambda: [])

    def pack(self, peer: PeerId) -> Send:
        """Return all parts in one RPC."""
        messages = sorted(self.messages.values(), key=_topic_and_id) if self.messages else ()
        rpc = _rpc(
            _by_topic(self.subscriptions),
            tuple([message for message, _ in messages]),
            self._control(),
        )
        return _send(peer, rpc, tuple([via for _, via in messages]))

    def _control(self) -> Control | None:
        gossip = self.ihaves or self.wanted
        if not (gossip or self.grafts or self.prunes or self.episub or self.features or self.extensions):
            return None
        return _control(
            ihave=tuple([_ihave(topic, self.ihaves[topic]) for topic in sorted(self.ihaves)]),
            iwant=(IWant(tuple(sorted(self.wanted))),) if self.wanted else (),
            graft=tuple(map(Graft, sorted(self.grafts))),
            prune=_by_topic(self.prunes),
            extensions=tuple(self.extensions),
            features=self.features,
            episub=tuple(self.episub),
        )

    def pack_singly(self, peer: PeerId) -> Iterator[Send]:
        """Yield each part in an RPC of its own (OUT-2). This removes the features from the parcel."""
        for features in self.features:
            yield Send(peer, Rpc(control=Control(features=(features,))))
        self.features = ()
        whole = self.pack(peer)
        for subscription in whole.rpc.subscriptions:
            yield Send(peer, Rpc(subscriptions=(subscription,)))
        for message, via in zip(whole.rpc.messages, whole.vias, strict=True):
            yield Send(peer, Rpc(messages=(message,)), (via,))
        if whole.rpc.control is not None:
            for part in whole.rpc.control.parts():
                yield Send(peer, Rpc(control=Control.of((part,))))


def _by_topic(parts: dict[TopicId, T]) -> tuple[T, ...]:
    return tuple([parts[topic] for topic in sorted(parts)]) if parts else ()


def _topic_and_id(entry: tuple[Message, Via]) -> tuple[TopicId, MessageId]:
    return entry[0].topic, entry[0].id


_NOTHING: list[Send] = []
"""The `entries` of all empty outboxes. Never changed."""


class Outbox:
    """The parts that the present call of `handle` sends, by peer. Methods such as `graft` add a part."""

    def __init__(self, coalesce: bool) -> None:
        self._coalesce = coalesce
        self.entries: list[Send] | dict[PeerId, _Parcel] = _NOTHING
        """A list of finished RPCs as long as only one call of `forward`, `ihave` or `episub` has added parts; peers
        ascend in it. Otherwise the parts by peer. Empty between calls of `handle`."""
        self.urgent: dict[PeerId, list[MessageId]] = {}
        """The ids of the IDONTWANTs, by peer; empty between calls of `handle`."""
        self.alone: list[Send] = []
        """Partial messages and test messages, each in an RPC of its own. They are sent after all other RPCs. Empty
        between calls of `handle`."""

    def forward(self, peers: Iterable[PeerId], message: Message, via: Via, received_from: PeerId | None) -> None:
        """Send a message to each of `peers`, which ascend, except to its author, to `received_from`, and to peers for
        which the message is in the outbox already."""
        receivers = [peer for peer in peers if peer != received_from and peer != message.source]
        if not self.entries:
            rpc, vias = _rpc((), (message,)), (via,)
            self.entries = [_send(peer, rpc, vias) for peer in receivers]
            return
        for peer in receivers:
            self.answer(peer, message, via)

    def answer(self, peer: PeerId, message: Message, via: Via) -> None:
        """Send a message that the peer requested, even if the peer is its author. Do nothing if the message is in the
        outbox for this peer already."""
        self._parcel(peer).messages.setdefault(message.id, (message, via))

    def subscription(
        self, peer: PeerId, topic: TopicId, subscribe: bool, partial: PartialUse = PartialUse.NONE
    ) -> None:
        """Send a SUBSCRIBE or UNSUBSCRIBE, in place of an earlier one of the same topic in the outbox."""
        self._parcel(peer).subscriptions[topic] = _subscription(topic, subscribe, partial)

    def graft(self, peer: PeerId, topic: TopicId) -> None:
        """Send a GRAFT, in place of a PRUNE of the same topic in the outbox."""
        parcel = self._parcel(peer)
        parcel.prunes.pop(topic, None)
        parcel.grafts.add(topic)

    def prune(self, peer: PeerId, prune: Prune) -> None:
        """Send a PRUNE, in place of a GRAFT or PRUNE of the same topic in the outbox."""
        parcel = self._parcel(peer)
        parcel.grafts.discard(prune.topic)
        parcel.prunes[prune.topic] = prune

    def clear_prune_peers(self, peer: PeerId) -> None:
        """Remove the names of other peers from the PRUNEs that are in the outbox for this peer."""
        parcel = self.entries.get(peer) if isinstance(self.entries, dict) else None
        if parcel is not None:
            parcel.prunes = {topic: replace(prune, peers=()) for topic, prune in parcel.prunes.items()}

    def ihave(self, peers: Iterable[PeerId], topic: TopicId, ids: tuple[MessageId, ...]) -> None:
        """Send an IHAVE with ids of one topic to `peers`, which ascend, in place of an earlier IHAVE of the topic."""
        if not self.entries:
            rpc = _rpc(control=_control(ihave=(_ihave(topic, ids),)))
            self.entries = [_send(peer, rpc) for peer in peers]
            return
        for peer in peers:
            self._parcel(peer).ihaves[topic] = ids

    def want(self, peer: PeerId, ids: Iterable[MessageId]) -> None:
        """Send an IWANT; all ids for one peer become one part."""
        self._parcel(peer).wanted.update(ids)

    def unwanted(self, peer: PeerId, message_id: MessageId) -> None:
        """Send an IDONTWANT; all ids for one peer become one part (OUT-3)."""
        self.urgent.setdefault(peer, []).append(message_id)

    def extension(self, peer: PeerId, extension: Extension) -> None:
        self._parcel(peer).extensions.append(extension)

    def partial(self, peer: PeerId, partial: Partial) -> None:
        self.alone.append(Send(peer, Rpc(partial=partial)))

    def test(self, peer: PeerId) -> None:
        self.alone.append(Send(peer, Rpc(test=ExtensionTest())))

    def features(self, peer: PeerId, features: Features) -> None:
        """Send the features of this router (v1.3)."""
        self._parcel(peer).features = (features,)

    def episub(self, peer: PeerId, part: EpisubPart) -> None:
        """Send a part of episub. The parts for one peer have the order of the calls of this method."""
        if self.entries:
            self._parcel(peer).episub.append(part)
        else:
            self.entries = [_send(peer, _rpc(control=_control(episub=(part,))))]

    def peers(self) -> list[PeerId]:
        """Return the peers that get an RPC, ascending; not those that get only IDONTWANTs, partial messages or test
        messages."""
        return sorted(send.peer for send in self.entries) if isinstance(self.entries, list) else sorted(self.entries)

    def flush(self, actions: list[Action]) -> None:
        """Append the RPCs for all parts to `actions`, and empty the outbox."""
        if self.urgent:
            for peer in sorted(self.urgent):
                actions.append(Send(peer, Rpc(control=Control(idontwant=(IDontWant(tuple(self.urgent[peer])),)))))
            self.urgent = {}
        entries = self.entries
        if isinstance(entries, list):
            actions += entries
        else:
            for peer in sorted(entries):
                actions += (entries[peer].pack(peer),) if self._coalesce else entries[peer].pack_singly(peer)
        self.entries = _NOTHING
        if self.alone:
            actions += self.alone
            self.alone = []

    def _parcel(self, peer: PeerId) -> _Parcel:
        """Return the parcel of a peer, a new one if there is none. The caller adds a part to it."""
        if isinstance(self.entries, list):
            self.entries = {send.peer: _unpacked(send) for send in self.entries}
        parcel = self.entries.get(peer)
        if parcel is None:
            parcel = self.entries[peer] = _Parcel()
        return parcel


def _unpacked(send: Send) -> _Parcel:
    """Return a parcel with the parts of an RPC that `forward`, `ihave` or `episub` made."""
    messages = {message.id: (message, via) for message, via in zip(send.rpc.messages, send.vias, strict=True)}
    control = send.rpc.control or Control()
    ihaves = {ihave.topic: ihave.ids for ihave in control.ihave}
    return _Parcel(messages=messages, ihaves=ihaves, episub=list(control.episub))
