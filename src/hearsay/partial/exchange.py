"""An application of partial messages (v1.3) that exchanges parts with peers until all peers have all parts.

A claim is the content of metadata: the parts that a node has, and the parts that it wants (`formats.py`).

* A peer is sent the parts that its claim wants and the node holds, each part once. With `eager`, a node that has
  added own parts also sends its parts to peers that have not sent a claim.
* A peer is sent a claim if the node holds parts and the peer cannot know that, from earlier claims or from parts that
  it sent or received. With `Asking.ONE`, a peer is sent a claim if it lacks a held part, or if other parts than
  before are requested from it.
* After each valid RPC, the router is asked to publish the group again: to all peers if the RPC had new parts,
  otherwise to its sender.
* An RPC that is not in the application's format, or has parts of another group, counts as invalid and is ignored.
* The full message of a group is returned once.
* With `asks=Asking.ONE`, each part is requested from one peer that has it, and from another peer if the part does not
  arrive. With `Asking.ALL`, it is requested from all peers. `Asking.ONE` needs metadata that distinguishes missing
  from wanted parts (`Bitlists`), because all parts that are missing in a `Bitmap` count as wanted.
* Parts that the application has from other sources (`known`) are held from the first RPC of a group on.
* A group takes memory from its first valid part on. There are at most `max_groups` groups; the oldest is dropped
  first. At most `max_groups` groups have requests to single peers; among these, the oldest without any part is
  dropped first.

With `Asking.ONE`, a part is requested from the first peer that offers it. If it does not arrive within a whole
heartbeat, it is requested from the other peer with the fewest requests. A peer that did not send a part is asked
again when it offers the part again. The number of offers of a group is bounded.

The router asks an application what to send to each peer (`PartialApplication`). The driver of the application, a node
or the simulator, passes received data to the application, passes the events of the `Outcome` to the router, and
publishes a complete message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, Protocol, runtime_checkable

from hearsay.core.language.events import PartialApplication, PartialFeedback, PartialPeer, PartsFor, PublishPartial
from hearsay.core.language.identifiers import PeerId, TopicId
from hearsay.core.language.rpc import Partial
from hearsay.core.rules.partial_rules import news, parts_to_send
from hearsay.partial.formats import Claim, InvalidParts, PartsFormat, members, set_of


class Outcome(NamedTuple):
    """The consequences of received or added parts."""

    events: tuple[PartialFeedback | PublishPartial, ...] = ()
    """Events for the router, in this order."""
    whole: bytes | None = None
    """The full message if its last part has just arrived; None otherwise. It is returned once."""


class DrivenApplication(PartialApplication, Protocol):
    """A partial application with a driver. It never raises because of data of a peer."""

    def received(self, partial: Partial, sender: PeerId) -> Outcome:
        """Handle parts or a claim of a peer."""
        ...

    def message_received(self, topic: TopicId, data: bytes) -> Outcome:
        """Handle a delivered full message, which a peer without partial messages sent."""
        ...


@runtime_checkable
class RemindedApplication(DrivenApplication, Protocol):
    """An application that also acts at heartbeats of the router."""

    def reminded(self, topic: TopicId, group: bytes) -> Outcome:
        """Act at a heartbeat at which the router still remembers the group."""
        ...


MAX_OFFERS = 256
"""Maximum number of peers per group whose offers are recorded. Other peers are not asked."""
PATIENCE = 1
"""Number of whole heartbeats to wait for a part."""


@dataclass(slots=True)
class _Ask:
    peer: PeerId
    heartbeats: int = 0


class Asks:
    """Requests to single peers for the parts of one group, and the offers of peers (`Asking.ONE`)."""

    __slots__ = ("_asked", "_offers")

    def __init__(self) -> None:
        self._asked: dict[int, _Ask] = {}
        self._offers: dict[PeerId, int] = {}

    def of(self, peer: PeerId) -> int:
        """Return the set of parts that are requested from a peer."""
        return set_of(part for part, ask in self._asked.items() if ask.peer == peer)

    def offered(self, peer: PeerId, has: int, lacking: int) -> None:
        """Record the parts `has` of a peer, and request from it those of `lacking` that are not requested yet."""
        if peer not in self._offers and len(self._offers) >= MAX_OFFERS:
            return
        self._offers[peer] = has
        for part in members(has & lacking & ~set_of(self._asked)):
            self._asked[part] = _Ask(peer)

    def arrived(self, parts: int) -> None:
        for part in [part for part in self._asked if parts >> part & 1]:
            del self._asked[part]

    def beat(self) -> list[PeerId]:
        """Count a heartbeat, and move overdue requests to other peers. Return the peers whose requests have changed.

        The peers are in ascending order.
        """
        changed: set[PeerId] = set()
        for part, ask in sorted(self._asked.items()):
            ask.heartbeats += 1
            if ask.heartbeats <= PATIENCE:
                continue
            changed.add(ask.peer)
            self._offers[ask.peer] &= ~(1 << part)
            del self._asked[part]
            other = self._least_asked(part)
            if other is not None:
                self._asked[part] = _Ask(other)
                changed.add(other)
        return sorted(changed)

    def _least_asked(self, part: int) -> PeerId | None:
        """Return the peer that offers a part and has the fewest requests; None if no peer offers it."""
        offering = [peer for peer, has in self._offers.items() if has >> part & 1]
        return min(offering, key=lambda peer: self.of(peer).bit_count(), default=None)


MAX_GROUPS = 1024
MAX_SENDERS = 256
"""Maximum number of senders per group whose parts are recorded. Other senders may be sent parts that they have."""


class Asking(StrEnum):
    """The peers from which a missing part is requested: all, or one that has it."""

    ALL = "all"
    ONE = "one"


KnownParts = Callable[[TopicId, bytes], Mapping[int, bytes]]
"""Returns the valid parts of a group that are known before any peer sends one."""


def none_known(topic: TopicId, group: bytes) -> Mapping[int, bytes]:
    return {}


class PartsExchange:
    def __init__(
        self,
        form: PartsFormat,
        *,
        eager: bool = False,
        known: KnownParts = none_known,
        max_groups: int = MAX_GROUPS,
        asks: Asking = Asking.ALL,
    ) -> None:
        self._form = form
        self._eager = eager
        self._known = known
        self._max_groups = max_groups
        self._asks_one = asks is Asking.ONE
        self._groups: dict[tuple[TopicId, bytes], _Group] = {}
        self._asks: dict[tuple[TopicId, bytes], Asks] = {}
        """Requests by group, for groups whose missing parts some peer offers."""
        self.invalid = 0
        """Number of RPCs and messages that were not in the application's format."""

    def held(self, topic: TopicId, group: bytes) -> Mapping[int, bytes]:
        """Return the held parts of a group."""
        found = self._groups.get((topic, group))
        return MappingProxyType(found.parts if found is not None else {})

    def add(self, topic: TopicId, group: bytes, parts: Mapping[int, bytes]) -> Outcome:
        """Add own parts. Raises `InvalidParts` if they are not of this group."""
        right = self._form.decode(group, self._form.encode(group, parts))
        here = self._group(topic, group)
        here.own = True
        here.parts.update(right)
        self._arrived(topic, group, here)
        return Outcome((PublishPartial(topic, group),), self._whole(group, here))

    def forget(self, topic: TopicId, group: bytes) -> None:
        self._groups.pop((topic, group), None)
        self._asks.pop((topic, group), None)

    def reminded(self, topic: TopicId, group: bytes) -> Outcome:
        """Request overdue parts from other peers."""
        asks = self._asks.get((topic, group))
        changed = () if asks is None else tuple(asks.beat())
        return Outcome((PublishPartial(topic, group, changed),)) if changed else Outcome()

    def parts_for(self, topic: TopicId, group: bytes, peer: PartialPeer) -> PartsFor:
        """Return the parts and metadata to send to a peer. The note is the set of parts that the peer was sent."""
        try:
            everything = self._form.all_parts(group)
        except InvalidParts:
            return PartsFor()
        here = self._groups.get((topic, group)) or _Group()
        given = peer.note if isinstance(peer.note, int) else 0
        shown = here.shown.get(peer.peer, 0)
        has = here.has
        wanted = self._wanted(group, peer, everything, here) if peer.requests else 0
        sent = parts_to_send(has, wanted, given, shown)
        given |= sent
        claim = Claim(has, self._asked_of(peer.peer, topic, group) if self._asks_one else everything & ~has)
        metadata = (
            self._form.encode_claim(group, claim) if self._has_news(group, peer, claim, given | shown) else None
        )
        parts = self._form.encode(group, {index: here.parts[index] for index in members(sent)}) if sent else None
        return PartsFor(parts, metadata, given)

    def received(self, partial: Partial, sender: PeerId) -> Outcome:
        topic, group = partial.topic, partial.group
        try:
            everything = self._form.all_parts(group)
            said = self._form.decode_claim(group, partial.metadata) if partial.metadata else Claim(0, 0)
            parts = self._form.decode(group, partial.parts) if partial.parts else {}
        except InvalidParts:
            self.invalid += 1
            return Outcome((PartialFeedback(sender, topic, useful=False),))
        known = none_known(topic, group) if (topic, group) in self._groups else self._known(topic, group)
        if not parts and not known:
            self._offered(topic, group, sender, said.has, everything)
            return Outcome((PublishPartial(topic, group, (sender,)),))
        here = self._group(topic, group)
        here.take(known)
        here.sent_by(sender, set_of(parts))
        useful = here.take(parts)
        self._arrived(topic, group, here)
        self._offered(topic, group, sender, said.has, everything)
        if not useful and not known:
            return Outcome((PublishPartial(topic, group, (sender,)),))
        praise = (PartialFeedback(sender, topic, useful=True),) if useful else ()
        return Outcome((*praise, PublishPartial(topic, group)), self._whole(group, here))

    def message_received(self, topic: TopicId, data: bytes) -> Outcome:
        try:
            group, parts = self._form.split(data)
        except InvalidParts:
            self.invalid += 1
            return Outcome()
        here = self._group(topic, group)
        here.complete = True
        self._asks.pop((topic, group), None)
        return Outcome((PublishPartial(topic, group),)) if here.take(parts) else Outcome()

    def _offered(self, topic: TopicId, group: bytes, sender: PeerId, has: int, everything: int) -> None:
        here = self._groups.get((topic, group))
        lacking = everything if here is None else everything & ~here.has
        if not self._asks_one or not has & lacking:
            return
        asks = self._asks.get((topic, group))
        if asks is None:
            if len(self._asks) >= self._max_groups:
                bare = (key for key in self._asks if key not in self._groups)
                del self._asks[next(bare, next(iter(self._asks)))]
            asks = self._asks[topic, group] = Asks()
        asks.offered(sender, has, lacking)

    def _arrived(self, topic: TopicId, group: bytes, here: _Group) -> None:
        asks = self._asks.get((topic, group))
        if asks is None:
            return
        asks.arrived(here.has)
        if here.has == self._form.all_parts(group):
            del self._asks[topic, group]

    def _asked_of(self, peer: PeerId, topic: TopicId, group: bytes) -> int:
        asks = self._asks.get((topic, group))
        return 0 if asks is None else asks.of(peer)

    def _has_news(self, group: bytes, peer: PartialPeer, claim: Claim, known: int) -> bool:
        """Return True if a claim is news to a peer, which knows that the parts `known` are held here."""
        claim = self._form.decode_claim(group, self._form.encode_claim(group, claim))  # as the peer decodes it
        sent, received = self._claim(group, peer.sent), self._claim(group, peer.received)
        if received is not None and self._asks_one:
            known |= received.has  # the peer needs no claim about parts that it has
            sent = sent or Claim(0, 0)
        if sent is None:
            return True
        return bool(news(*claim, *sent, known))

    def _wanted(self, group: bytes, peer: PartialPeer, everything: int, here: _Group) -> int:
        said = self._claim(group, peer.received)
        if said is not None:
            return said.wants
        return everything if self._eager and here.own and not peer.gossip else 0

    def _claim(self, group: bytes, metadata: bytes | None) -> Claim | None:
        """Return the claim in metadata; None if there is no metadata, or if it is not in the application's format."""
        if not metadata:
            return None
        try:
            return self._form.decode_claim(group, metadata)
        except InvalidParts:
            return None

    def _group(self, topic: TopicId, group: bytes) -> _Group:
        found = self._groups.get((topic, group))
        if found is None:
            if len(self._groups) >= self._max_groups:
                del self._groups[next(iter(self._groups))]
            found = self._groups[topic, group] = _Group()
        return found

    def _whole(self, group: bytes, here: _Group) -> bytes | None:
        if here.complete or here.has != self._form.all_parts(group):
            return None
        here.complete = True
        return self._form.whole(group, here.parts)


class _Group:
    """The parts of one group that the node holds. `own`: the application added some of them itself.

    `complete`: the full message was returned or received.
    """

    __slots__ = ("complete", "own", "parts", "shown")

    def __init__(self) -> None:
        self.parts: dict[int, bytes] = {}
        self.shown: dict[PeerId, int] = {}
        """The set of parts that each peer has sent; at most `MAX_SENDERS` peers."""
        self.own = False
        self.complete = False

    @property
    def has(self) -> int:
        return set_of(self.parts)

    def take(self, parts: Mapping[int, bytes]) -> bool:
        """Add parts. Returns True if any of them is new."""
        new = {index: part for index, part in parts.items() if index not in self.parts}
        self.parts.update(new)
        return bool(new)

    def sent_by(self, sender: PeerId, parts: int) -> None:
        if sender in self.shown or len(self.shown) < MAX_SENDERS:
            self.shown[sender] = self.shown.get(sender, 0) | parts
