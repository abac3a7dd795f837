"""The outbox: what one `handle` call wants to send, packed at its end.

Rules (r1, "Control Message Piggybacking"; guide, "Network packets"): at most one RPC per peer and call, peers
ascending, the parts of an RPC by topic and then id. Nothing waits for a later call. Without coalescing, as in
simsub, every part is an RPC of its own, in the same order.

Nearly all sends are one message, or one topic's gossip, to a few peers; they share one `Rpc` and skip the packing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hearsay.core.actions import Action, Send, Via
from hearsay.core.episub.parts import EpisubPart
from hearsay.core.identifiers import MessageId, PeerId, TopicId
from hearsay.core.rpc import Control, Extension, Graft, IHave, IWant, Message, Prune, Rpc, Subscription


class _Parcel:
    """All parts for one peer."""

    __slots__ = ("episub", "extensions", "grafts", "ihaves", "messages", "prunes", "subscriptions", "wanted")

    def __init__(self) -> None:
        self.subscriptions: dict[TopicId, bool] = {}
        self.messages: dict[MessageId, tuple[Message, Via]] = {}
        self.grafts: set[TopicId] = set()
        self.prunes: set[TopicId] = set()
        self.ihaves: dict[TopicId, tuple[MessageId, ...]] = {}
        self.wanted: set[MessageId] = set()
        self.extensions: list[Extension] = []
        self.episub: list[EpisubPart] = []

    def absorb(self, shared: Send) -> None:
        """Take over what `Outbox.forward` or `Outbox.ihave` put into a shared RPC."""
        for message, via in zip(shared.rpc.messages, shared.vias, strict=True):
            self.messages[message.id] = (message, via)
        if shared.rpc.control is not None:
            for ihave in shared.rpc.control.ihave:
                self.ihaves[ihave.topic] = ihave.ids

    def pack(self, peer: PeerId) -> Send:
        messages = self._messages()
        control = Control(
            ihave=tuple(self._ihaves()),
            iwant=tuple(self._iwants()),
            graft=tuple(map(Graft, sorted(self.grafts))),
            prune=tuple(map(Prune, sorted(self.prunes))),
            extensions=tuple(self.extensions),
            episub=tuple(self.episub),
        )
        rpc = Rpc(
            tuple(self._subscriptions()),
            tuple(message for message, _ in messages),
            control if control != _NO_CONTROL else None,
        )
        return Send(peer, rpc, tuple(via for _, via in messages))

    def pack_singly(self, peer: PeerId) -> Iterator[Send]:
        for subscription in self._subscriptions():
            yield Send(peer, Rpc(subscriptions=(subscription,)))
        for message, via in self._messages():
            yield Send(peer, Rpc(messages=(message,)), (via,))
        for ihave in self._ihaves():
            yield Send(peer, Rpc(control=Control(ihave=(ihave,))))
        for iwant in self._iwants():
            yield Send(peer, Rpc(control=Control(iwant=(iwant,))))
        for topic in sorted(self.grafts):
            yield Send(peer, Rpc(control=Control(graft=(Graft(topic),))))
        for topic in sorted(self.prunes):
            yield Send(peer, Rpc(control=Control(prune=(Prune(topic),))))
        for extension in self.extensions:
            yield Send(peer, Rpc(control=Control(extensions=(extension,))))
        for part in self.episub:
            yield Send(peer, Rpc(control=Control(episub=(part,))))

    def _subscriptions(self) -> Iterator[Subscription]:
        return (Subscription(topic, self.subscriptions[topic]) for topic in sorted(self.subscriptions))

    def _messages(self) -> list[tuple[Message, Via]]:
        return sorted(self.messages.values(), key=lambda entry: (entry[0].topic, entry[0].id))

    def _ihaves(self) -> Iterator[IHave]:
        return (IHave(topic, self.ihaves[topic]) for topic in sorted(self.ihaves))

    def _iwants(self) -> Iterator[IWant]:
        if self.wanted:
            yield IWant(tuple(sorted(self.wanted)))


_NO_CONTROL = Control()


class Outbox:
    """Collects parts per peer during one `handle` call."""

    __slots__ = ("_coalesce", "_mixed", "entries")

    def __init__(self, coalesce: bool) -> None:
        self._coalesce = coalesce
        self.entries: dict[PeerId, Send | _Parcel] = {}
        """What goes to whom; empty between calls."""
        self._mixed = False
        """False while all entries are the sends of one `forward` or `ihave`, which are in order already."""

    def forward(
        self,
        peers: Iterable[PeerId],
        message: Message,
        via: Via,
        received_from: PeerId | None,
    ) -> None:
        """One message to all of `peers`, ascending, but the one it came from and its author."""
        source = message.source
        rpc = Rpc((), (message,))
        vias = (via,)
        if not self.entries:
            self.entries = {peer: Send(peer, rpc, vias) for peer in peers if peer != received_from and peer != source}
            return
        self._mixed = True
        for peer in peers:
            if peer == received_from or peer == source:
                continue
            if peer in self.entries:
                self._parcel(peer).messages.setdefault(message.id, (message, via))
            else:
                self.entries[peer] = Send(peer, rpc, vias)

    def answer(self, peer: PeerId, message: Message) -> None:
        """A message the peer asked for with IWANT."""
        self.send_again(peer, message, Via.IWANT)

    def send_again(self, peer: PeerId, message: Message, via: Via) -> None:
        """A message the peer asked for, whoever wrote it."""
        self._parcel(peer).messages.setdefault(message.id, (message, via))

    def subscription(self, peer: PeerId, topic: TopicId, subscribe: bool) -> None:
        self._parcel(peer).subscriptions[topic] = subscribe

    def graft(self, peer: PeerId, topic: TopicId) -> None:
        parcel = self._parcel(peer)
        parcel.prunes.discard(topic)
        parcel.grafts.add(topic)

    def prune(self, peer: PeerId, topic: TopicId) -> None:
        parcel = self._parcel(peer)
        parcel.grafts.discard(topic)
        parcel.prunes.add(topic)

    def ihave(self, peers: Iterable[PeerId], topic: TopicId, ids: tuple[MessageId, ...]) -> None:
        """One topic's gossip to `peers`, ascending."""
        rpc = Rpc(control=Control(ihave=(IHave(topic, ids),)))
        if not self.entries:
            self.entries = {peer: Send(peer, rpc) for peer in peers}
            return
        self._mixed = True
        for peer in peers:
            if peer in self.entries:
                self._parcel(peer).ihaves[topic] = ids
            else:
                self.entries[peer] = Send(peer, rpc)

    def want(self, peer: PeerId, ids: Iterable[MessageId]) -> None:
        self._parcel(peer).wanted.update(ids)

    def extension(self, peer: PeerId, extension: Extension) -> None:
        self._parcel(peer).extensions.append(extension)

    def episub(self, peer: PeerId, part: EpisubPart) -> None:
        """One of episub's parts; these keep the order in which they were said."""
        self._parcel(peer).episub.append(part)

    def peers(self) -> list[PeerId]:
        """Whom something goes to already, ascending."""
        return sorted(self.entries)

    def flush(self, actions: list[Action]) -> None:
        """Append the sends to `actions` and be empty again."""
        entries = self.entries
        self.entries = {}
        if not self._mixed:
            actions.extend(entries.values())  # pyright: ignore[reportArgumentType]
            return
        self._mixed = False
        for peer in sorted(entries):
            entry = entries[peer]
            if isinstance(entry, Send):
                actions.append(entry)
            elif self._coalesce:
                actions.append(entry.pack(peer))
            else:
                actions.extend(entry.pack_singly(peer))

    def _parcel(self, peer: PeerId) -> _Parcel:
        entry = self.entries.get(peer)
        if isinstance(entry, _Parcel):
            return entry
        self._mixed = True
        parcel = self.entries[peer] = _Parcel()
        if entry is not None:
            parcel.absorb(entry)
        return parcel
