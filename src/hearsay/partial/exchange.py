"""An application of partial messages (v1.3) that exchanges parts with peers until all peers have all parts.

A group is the name of a message in parts, and a node holds the parts of it that it has stored. A claim is the content
of metadata: the parts that a node has, and the parts that it wants (`formats.py`).

* A peer that requests parts gets the held parts that its claim wants, each part once. With `eager`, such a peer that
  has not sent a claim gets all held parts, if the node's application has added parts of the group. Peers that were
  drawn for gossip are an exception: they get no parts before they send a claim.
* The node sends a peer a first claim, and further claims that have news. A claim has news if the node now wants, or
  no longer wants, a part that it lacks. It also has news if it shows held parts that the peer does not know yet from
  earlier claims and from the parts sent and received. With `Asking.ONE`, the parts that a peer claims to have are no
  news to it, and a first claim is sent to a peer that has sent a claim only if the first claim has news.
* After each valid RPC, the router is asked to publish the group again. It publishes to all peers if the node holds
  new parts, and otherwise to the sender of the RPC.
* An RPC that is not in the application's format, or has parts of another group, is ignored, and is reported to the
  router as invalid.
* The full message of a group is returned once, when its last part arrives, unless a peer has sent the full message.
* With `Asking.ALL`, a missing part is requested from all peers, and with `Asking.ONE` from a single peer that has it.
  `Asking.ONE` needs metadata that distinguish missing from wanted parts (`Bitlists`), because all parts that are
  missing in a `Bitmap` are wanted.
* Parts that the application has from other sources (`known`) are held from the first valid RPC of a group on, unless
  the group has been stored before.
* A group takes memory from its first valid part on. At most `max_groups` groups are stored; the oldest is dropped
  first. At most `max_groups` groups have requests to single peers. The requests of the oldest group without held
  parts are dropped first; if there is no such group, those of the oldest group.

With `Asking.ONE`, a part is requested from the first peer that offers it. If the part does not arrive within a whole
interval between heartbeats, it is requested from another peer that offers it: the one with the fewest requests. The
first peer is asked again only if it offers the part again. Only the offers of `MAX_OFFERS` peers are recorded.

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
    """The results of a call of an application: events for the router, and perhaps a full message."""

    events: tuple[PartialFeedback | PublishPartial, ...] = ()
    """Events for the router, in this order."""
    whole: bytes | None = None
    """The full message if its last part has just arrived; otherwise None."""


class DrivenApplication(PartialApplication, Protocol):
    """An application of partial messages to which a driver passes received data. Its methods raise no exception,
    whatever a peer sends."""

    def received(self, partial: Partial, sender: PeerId) -> Outcome:
        """Handle parts or a claim of a peer."""
        ...

    def message_received(self, topic: TopicId, data: bytes) -> Outcome:
        """Handle a delivered full message, which a peer or this node itself has published."""
        ...


@runtime_checkable
class RemindedApplication(DrivenApplication, Protocol):
    """A `DrivenApplication` that also acts at heartbeats of the router."""

    def reminded(self, topic: TopicId, group: bytes) -> Outcome:
        """Act at a heartbeat of the router. It is called for each group in which this application has published and
        that the router still remembers.
        """
        ...


MAX_OFFERS = 256
"""Maximum number of peers per group whose offers are recorded. No parts are requested from other peers."""
ANSWER_INTERVALS = 1
"""Number of whole intervals between heartbeats in which a requested part may arrive."""


@dataclass(slots=True)
class _Ask:
    peer: PeerId
    heartbeats: int = 0


class Asks:
    """Requests to single peers for the parts of one group, and the offers of peers (`Asking.ONE`)."""

    def __init__(self) -> None:
        self._asked: dict[int, _Ask] = {}
        self._offers: dict[PeerId, int] = {}

    def requested_from(self, peer: PeerId) -> int:
        """Return the set of parts that are requested from a peer."""
        return set_of(part for part, ask in self._asked.items() if ask.peer == peer)

    def offered(self, peer: PeerId, has: int, lacking: int) -> None:
        """Record that a peer has the parts `has`. Request from the peer those of these parts that are in `lacking`
        and not yet requested from any peer.

        Do nothing for a new peer if `MAX_OFFERS` peers are recorded.
        """
        if peer not in self._offers and len(self._offers) >= MAX_OFFERS:
            return
        self._offers[peer] = has
        for part in members(has & lacking & ~set_of(self._asked)):
            self._asked[part] = _Ask(peer)

    def arrived(self, parts: int) -> None:
        for part in [part for part in self._asked if parts >> part & 1]:
            del self._asked[part]

    def beat(self) -> list[PeerId]:
        """Handle a heartbeat: move each overdue request to another peer that offers the part, or end the request.

        Return the peers whose requests have changed, in ascending order.
        """
        changed: set[PeerId] = set()
        for part, ask in sorted(self._asked.items()):
            ask.heartbeats += 1
            if ask.heartbeats <= ANSWER_INTERVALS:
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
        """Return the peer that offers a part and has the fewest requests; None if no peer offers the part."""
        offering = [peer for peer, has in self._offers.items() if has >> part & 1]
        return min(offering, key=lambda peer: self.requested_from(peer).bit_count(), default=None)


MAX_GROUPS = 1024
MAX_SENDERS = 256
"""Maximum number of peers per group whose sent parts are recorded. Other peers may get back parts that they sent."""


class Asking(StrEnum):
    """The peers from which a missing part is requested: all, or one that has it."""

    ALL = "all"
    ONE = "one"


KnownParts = Callable[[TopicId, bytes], Mapping[int, bytes]]
"""A function that returns the valid parts of a group, by index, that are known before any peer sends one."""


def none_known(topic: TopicId, group: bytes) -> Mapping[int, bytes]:
    return {}


class PartsExchange:
    """The application that this module describes.

    `form` is the format of its messages, and `known` returns parts that the application has from other sources.
    """

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
        """Requests to single peers by group, for groups that have such requests or offers."""
        self.invalid = 0
        """Number of received RPCs and full messages that were not in the application's format."""

    def held(self, topic: TopicId, group: bytes) -> Mapping[int, bytes]:
        """Return a read-only view of the held parts of a group, by index."""
        found = self._groups.get((topic, group))
        return MappingProxyType(found.parts if found is not None else {})

    def add(self, topic: TopicId, group: bytes, parts: Mapping[int, bytes]) -> Outcome:
        """Add parts of a group, by index, that the application has. Raises `InvalidParts` if a part is invalid.

        The caller passes the outcome to the driver, for a node by `Topic.follow`.
        """
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
        """Handle a heartbeat: request parts that did not arrive in time from other peers."""
        asks = self._asks.get((topic, group))
        changed = () if asks is None else tuple(asks.beat())
        return Outcome((PublishPartial(topic, group, changed),)) if changed else Outcome()

    def parts_for(self, topic: TopicId, group: bytes, peer: PartialPeer) -> PartsFor:
        """Return the parts and metadata to send to a peer.

        The note of the result is the set of parts that were sent to the peer, including those in the result.
        """
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
        here.add(known)
        here.sent_by(sender, set_of(parts))
        useful = here.add(parts)
        self._arrived(topic, group, here)
        self._offered(topic, group, sender, said.has, everything)
        if not useful and not known:
            return Outcome((PublishPartial(topic, group, (sender,)),))
        feedback = (PartialFeedback(sender, topic, useful=True),) if useful else ()
        return Outcome((*feedback, PublishPartial(topic, group)), self._whole(group, here))

    def message_received(self, topic: TopicId, data: bytes) -> Outcome:
        try:
            group, parts = self._form.split(data)
        except InvalidParts:
            self.invalid += 1
            return Outcome()
        here = self._group(topic, group)
        here.complete = True
        self._asks.pop((topic, group), None)
        return Outcome((PublishPartial(topic, group),)) if here.add(parts) else Outcome()

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
        return 0 if asks is None else asks.requested_from(peer)

    def _has_news(self, group: bytes, peer: PartialPeer, claim: Claim, known: int) -> bool:
        """Return True if a claim has news for a peer. The peer already knows that this node has the parts `known`."""
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
        """Return the claim in metadata; None if there are no metadata, or if they are not in the application's
        format.
        """
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
    """The held parts of one group, and the parts that peers have sent."""

    def __init__(self) -> None:
        self.parts: dict[int, bytes] = {}
        self.shown: dict[PeerId, int] = {}
        """The set of parts that each peer has sent; at most `MAX_SENDERS` peers."""
        self.own = False
        """True if the application has added some of the parts itself."""
        self.complete = False
        """True if the full message was returned by this application or received from a peer."""

    @property
    def has(self) -> int:
        return set_of(self.parts)

    def add(self, parts: Mapping[int, bytes]) -> bool:
        """Add parts that are not held yet. Returns True if there are any."""
        new = {index: part for index, part in parts.items() if index not in self.parts}
        self.parts.update(new)
        return bool(new)

    def sent_by(self, sender: PeerId, parts: int) -> None:
        if sender in self.shown or len(self.shown) < MAX_SENDERS:
            self.shown[sender] = self.shown.get(sender, 0) | parts
