"""The outbox: the parts that one `handle` call sends, which are packed into RPCs at its end.

Rules (r1, "Control Message Piggybacking"; guide, "Network packets"):

* OUT-1: at most one RPC per peer and call, peers ascending, the parts of an RPC in the order of handling, then by
  topic and id. Nothing waits for a later call.
* OUT-2: without coalescing, as in simsub, every part is an RPC of its own, in the same order, after the features,
  which a peer must receive first (EXT-1).
* OUT-3: IDONTWANT goes ahead of all else, in an RPC of its own: it is useful only as long as the peer has
  not sent the message.

Nearly all sends are one message, or one topic's gossip, to a few peers, which share one `Rpc` object; or one part to
one peer. These RPCs are made at once and need no packing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from hearsay.core.language.actions import Action, Send, Via
from hearsay.core.language.episub_parts import EpisubPart
from hearsay.core.language.fast_frozen import fast_init
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


class _Parcel:
    """All parts for one peer."""

    __slots__ = (
        "episub",
        "extensions",
        "features",
        "grafts",
        "ihaves",
        "messages",
        "prunes",
        "subscriptions",
        "wanted",
    )

    def __init__(self) -> None:
        self.subscriptions: dict[TopicId, Subscription] = {}
        self.messages: dict[MessageId, tuple[Message, Via]] = {}
        self.grafts: set[TopicId] = set()
        self.prunes: dict[TopicId, Prune] = {}
        self.ihaves: dict[TopicId, tuple[MessageId, ...]] = {}
        self.wanted: set[MessageId] = set()
        self.extensions: list[Extension] = []
        self.features: tuple[Features, ...] = ()
        self.episub: list[EpisubPart] = []

    def absorb(self, whole: Send) -> None:
        """Add the parts of an RPC that was made at once, without packing."""
        rpc = whole.rpc
        for subscription in rpc.subscriptions:
            self.subscriptions[subscription.topic] = subscription
        for message, via in zip(rpc.messages, whole.vias, strict=True):
            self.messages[message.id] = (message, via)
        if rpc.control is not None:
            for ihave in rpc.control.ihave:
                self.ihaves[ihave.topic] = ihave.ids
            self.episub += rpc.control.episub

    def pack(self, peer: PeerId) -> Send:
        messages = sorted(self.messages.values(), key=_topic_and_id) if self.messages else ()
        rpc = _rpc(
            _by_topic(self.subscriptions),
            tuple([message for message, _ in messages]),
            self._control(),
        )
        return _send(peer, rpc, tuple([via for _, via in messages]))

    def _control(self) -> Control | None:
        gossip = self.ihaves or self.wanted
        mesh = self.grafts or self.prunes
        if not (gossip or mesh or self.episub or self.features or self.extensions):
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
"""Shared content of empty outboxes. Never changed."""


class Outbox:
    """Collects parts per peer during one `handle` call."""

    def __init__(self, coalesce: bool) -> None:
        self._coalesce = coalesce
        self.entries: list[Send] | dict[PeerId, Send | _Parcel] = _NOTHING
        """Sends and parcels by peer; empty between calls. It is a list while it has only the sends of one `forward`
        or `ihave`, which are in order. If a peer with a complete `Send` gets another part, a `_Parcel` replaces the
        `Send`."""
        self.urgent: dict[PeerId, list[MessageId]] = {}
        """Ids for the IDONTWANTs, by peer; empty between calls."""
        self.alone: list[Send] = []
        """Partial messages and test messages, each an RPC of its own, sent after all others; empty between calls."""

    def forward(
        self,
        peers: Iterable[PeerId],
        message: Message,
        via: Via,
        received_from: PeerId | None,
    ) -> None:
        """Send a message to all of `peers`, ascending, except its sender and its author."""
        source = message.source
        rpc = _rpc((), (message,))
        vias = (via,)
        if not self.entries:
            self.entries = [_send(peer, rpc, vias) for peer in peers if peer != received_from and peer != source]
            return
        entries = self._by_peer()
        for peer in peers:
            if peer == received_from or peer == source:
                continue
            if peer in entries:
                self._parcel(peer).messages.setdefault(message.id, (message, via))
            else:
                entries[peer] = _send(peer, rpc, vias)

    def answer(self, peer: PeerId, message: Message) -> None:
        """Send a message that the peer requested by IWANT."""
        self.send_again(peer, message, Via.IWANT)

    def send_again(self, peer: PeerId, message: Message, via: Via) -> None:
        """Send a message that the peer requested, even if the peer is its author."""
        self._parcel(peer).messages.setdefault(message.id, (message, via))

    def subscription(
        self, peer: PeerId, topic: TopicId, subscribe: bool, partial: PartialUse = PartialUse.NONE
    ) -> None:
        said = _subscription(topic, subscribe, partial)
        entries = self._by_peer()
        if peer in entries:
            self._parcel(peer).subscriptions[topic] = said
        else:
            entries[peer] = _send(peer, _rpc((said,)))

    def graft(self, peer: PeerId, topic: TopicId) -> None:
        parcel = self._parcel(peer)
        parcel.prunes.pop(topic, None)
        parcel.grafts.add(topic)

    def prune(self, peer: PeerId, prune: Prune) -> None:
        parcel = self._parcel(peer)
        parcel.grafts.discard(prune.topic)
        parcel.prunes[prune.topic] = prune

    def clear_prune_peers(self, peer: PeerId) -> None:
        """Remove the names of other peers from the PRUNEs to a peer that are in the outbox."""
        entry = self._by_peer().get(peer)
        if isinstance(entry, _Parcel):
            entry.prunes = {topic: replace(prune, peers=()) for topic, prune in entry.prunes.items()}

    def ihave(self, peers: Iterable[PeerId], topic: TopicId, ids: tuple[MessageId, ...]) -> None:
        """Send one topic's gossip to `peers`, ascending."""
        rpc = _rpc(control=_control(ihave=(_ihave(topic, ids),)))
        if not self.entries:
            self.entries = [_send(peer, rpc) for peer in peers]
            return
        entries = self._by_peer()
        for peer in peers:
            if peer in entries:
                self._parcel(peer).ihaves[topic] = ids
            else:
                entries[peer] = _send(peer, rpc)

    def want(self, peer: PeerId, ids: Iterable[MessageId]) -> None:
        self._parcel(peer).wanted.update(ids)

    def unwanted(self, peer: PeerId, message_id: MessageId) -> None:
        self.urgent.setdefault(peer, []).append(message_id)

    def extension(self, peer: PeerId, extension: Extension) -> None:
        self._parcel(peer).extensions.append(extension)

    def partial(self, peer: PeerId, partial: Partial) -> None:
        self.alone.append(Send(peer, Rpc(partial=partial)))

    def test(self, peer: PeerId) -> None:
        self.alone.append(Send(peer, Rpc(test=ExtensionTest())))

    def features(self, peer: PeerId, features: Features) -> None:
        """Send the features of this router."""
        self._parcel(peer).features = (features,)

    def episub(self, peer: PeerId, part: EpisubPart) -> None:
        """Send a part of episub. These parts keep the order of the calls."""
        entries = self._by_peer()
        if peer in entries:
            self._parcel(peer).episub.append(part)
        else:
            entries[peer] = _send(peer, _rpc(control=_control(episub=(part,))))

    def peers(self) -> list[PeerId]:
        """Return the peers with parts, ascending."""
        return sorted(self._by_peer())

    def flush(self, actions: list[Action]) -> None:
        """Append the sends to `actions`, and empty the outbox."""
        if self.urgent:
            for peer in sorted(self.urgent):
                actions.append(Send(peer, Rpc(control=Control(idontwant=(IDontWant(tuple(self.urgent[peer])),)))))
            self.urgent = {}
        if self.entries:
            self._flush_entries(actions)
        if self.alone:
            actions += self.alone
            self.alone = []

    def _flush_entries(self, actions: list[Action]) -> None:
        entries = self.entries
        self.entries = _NOTHING
        if isinstance(entries, list):
            actions += entries
            return
        for peer in sorted(entries):
            entry = entries[peer]
            if isinstance(entry, Send):
                actions.append(entry)
            elif self._coalesce:
                actions.append(entry.pack(peer))
            else:
                actions.extend(entry.pack_singly(peer))

    def _by_peer(self) -> dict[PeerId, Send | _Parcel]:
        if isinstance(self.entries, list):
            self.entries = {send.peer: send for send in self.entries}
        return self.entries

    def _parcel(self, peer: PeerId) -> _Parcel:
        entries = self._by_peer()
        entry = entries.get(peer)
        if isinstance(entry, _Parcel):
            return entry
        parcel = entries[peer] = _Parcel()
        if entry is not None:
            parcel.absorb(entry)
        return parcel
