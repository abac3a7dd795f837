"""The links of the active list: how nodes agree on a link (NEIGHBOR), and how one of them ends it (DISCONNECT).

A link request is a NEIGHBOR with the role REQUEST, and an ACCEPT is one with the role ACCEPT. A node is closer by
alpha than a neighbour if its RTT is below `alpha_percent` of that neighbour's RTT. `views.py` defines A and C_rand.
Rules (episub spec, "Joining the Overlay"; with overlay = hyparview, HyParView 4.2–4.3):

* NEIGHBOR-1: A node Q decides about a link request by the first rule that applies. Q grants the request if Q has
  room. Q grants a random link if the asker has fewer than C_rand links, as the request states. Q grants a near link
  if Q has more than C_rand links and the asker is closer by alpha than the farthest near neighbour with a known RTT.
  Q measures the asker's RTT first, and drops the link to that neighbour if it grants the request. Q refuses all other
  requests. The RTT does not decide about a request for a random link: otherwise a node that has all its links and
  asks for one more would displace near links.
* NEIGHBOR-2: HyParView grants a request if there is room. A request of a peer without links is always granted; if
  there is no room, a random neighbour is dropped.
* NEIGHBOR-3: Q adds the asker and sends ACCEPT; the receiver of an ACCEPT adds the sender. A refusal is a DISCONNECT
  with `refused`. The refusal only answers the request: it does not end a link that the two nodes have made meanwhile
  because Q also sent a request.
* NEIGHBOR-4: A peer that treats this node as its neighbour, but is no neighbour of this node, gets a DISCONNECT
  (`claimed_as_neighbour`), so that a lost part never leaves a lasting one-sided link. A neighbour that replaces its
  stream gets ACCEPT again, since the neighbour may have forgotten the link.
* NEIGHBOR-5: If this node has itself sent a request to the asker, this node grants the asker's request: two nodes
  that ask each other get a link.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from hearsay.core.episub.parameters import Overlay
from hearsay.core.episub.views import Context, TopicPart
from hearsay.core.language.episub_parts import Disconnect, Neighbor, Role
from hearsay.core.language.identifiers import Micros, PeerId
from hearsay.core.rules.randomness import Purpose


@dataclass(frozen=True, slots=True)
class _Request:
    """A link request of this node."""

    random: bool
    replaces: PeerId | None
    """The neighbour whose link is dropped if the peer accepts and the active list is longer than A then."""
    due: Micros | None
    """The end of the wait for the answer; None while the connection is not open yet and the request is not sent."""


class Neighbours(TopicPart):
    """The link requests of this node, the answers to those of peers, and the end of links."""

    def __init__(self, context: Context, on_refusal: Callable[[PeerId], None]) -> None:
        super().__init__(context)
        self._on_refusal = on_refusal
        self.requests: dict[PeerId, _Request] = {}
        """The open requests of this node, by the peer that gets them."""
        self._measuring: dict[PeerId, Micros] = {}
        """The peers whose request waits until their RTT is measured, each with the end of that wait."""

    def request(self, peer: PeerId, random: bool, replaces: PeerId | None = None) -> None:
        """Ask a peer to become a neighbour; dial the peer if necessary. If the active list is longer than A after the
        peer has accepted, the link to the neighbour `replaces` is dropped."""
        self.requests[peer] = _Request(random, replaces, None)
        self._connections.hold(peer, (self._topic, "request"))
        met = self._connections.meet(
            peer, self._topic, lambda: self._ask(peer), lambda: self._request_failed(peer, forget=True)
        )
        if not met:
            self._request_failed(peer, forget=False)

    def on_neighbor(self, sender: PeerId, part: Neighbor) -> None:
        match part.role:
            case Role.REQUEST:
                self._decide(sender, part)
            case Role.ACCEPT:
                self._accepted(sender, part)
            case Role.QUERY:
                if sender in self._views.active:
                    self.send_neighbor_part(sender, Role.REPLY, False, tuple(self._views.neighbours(sender)))
                else:
                    self.claimed_as_neighbour(sender)
            case Role.REPLY:
                pass  # `Upkeep.on_reply` handles these

    def on_disconnect(self, sender: PeerId, part: Disconnect) -> None:
        if part.refused:
            self._request_failed(sender, forget=False)
        elif sender in self._views.active:
            self.drop(sender, remember=True)

    def accept(self, peer: PeerId, random: bool) -> bool:
        """Make a connected peer a neighbour, unless it is one already, and send it ACCEPT. Return False if there is
        no room; then do neither."""
        if peer not in self._views.active:
            if not self._make_room():
                return False
            self._add(peer, random)
        self.send_neighbor_part(peer, Role.ACCEPT, random)
        return True

    def evict(self, peer: PeerId) -> None:
        """Remove a neighbour and send it DISCONNECT."""
        self.drop(peer, remember=True)
        self._shell.outbox.episub(peer, Disconnect(self._topic, refused=False))

    def drop(self, peer: PeerId, remember: bool) -> None:
        """Remove a neighbour without a DISCONNECT. With `remember`, add the peer to the passive list."""
        self._views.remove_active(peer, remember)
        self._connections.release(peer, (self._topic, "link"))

    def measured(self, peer: PeerId, rtt_us: Micros) -> None:
        """If a peer's request for a near link waits for this RTT, decide about the request (NEIGHBOR-1)."""
        views = self._views
        if not self._stop_measuring(peer) or peer in views.active:
            return
        farthest = views.farthest_near()
        may_replace = len(views.active) > self._target_sizes.random_links
        if farthest is not None and may_replace and self.closer(rtt_us, farthest):
            self.evict(farthest)
            self.accept(peer, random=False)
        else:
            self._refuse(peer)

    def closer(self, rtt_us: Micros, near: PeerId) -> bool:
        """Return whether an RTT is below `alpha_percent` of the RTT of the neighbour `near`; False if that is
        unknown."""
        other_us = self._views.active[near].rtt_us
        return other_us is not None and rtt_us * 100 < other_us * self._parameters.alpha_percent

    def claimed_as_neighbour(self, peer: PeerId) -> None:
        """Send DISCONNECT to a peer that wrongly treats this node as its neighbour (NEIGHBOR-4). Do nothing if a link
        request to the peer is open."""
        if peer not in self.requests:
            self._shell.outbox.episub(peer, Disconnect(self._topic, refused=False))

    def lost(self, peer: PeerId) -> bool:
        """Handle a peer that disconnected, left the topic or failed; return True if it was a neighbour."""
        self._stop_measuring(peer)
        was_neighbour = peer in self._views.active
        if was_neighbour:
            self.drop(peer, remember=False)
        self._request_failed(peer, forget=True)
        return was_neighbour

    def expire(self) -> None:
        """End the requests of this node that were not answered in time. Refuse the requests of peers whose RTT was
        not measured in time."""
        now = self._shell.now
        asked = {peer: request.due for peer, request in self.requests.items() if request.due is not None}
        for peer in sorted(peer for peer, due in asked.items() if due <= now):
            self._request_failed(peer, forget=False)
        for peer in sorted(peer for peer, due in self._measuring.items() if due <= now):
            self._stop_measuring(peer)
            self._refuse(peer)

    def dues(self) -> Iterator[Micros]:
        """Yield the ends of the present waits: at each of these times, `expire` must be called."""
        yield from (request.due for request in self.requests.values() if request.due is not None)
        yield from self._measuring.values()

    def stop(self) -> None:
        for peer in list(self.requests):
            self._end_request(peer)
        for peer in list(self._measuring):
            self._stop_measuring(peer)

    def _ask(self, peer: PeerId) -> None:
        """Send the link request to a peer that is connected now. If the peer is a neighbour already, end the request
        instead."""
        request = self.requests.get(peer)
        if request is None:
            return
        if peer in self._views.active:
            self._end_request(peer)
        else:
            self.requests[peer] = replace(request, due=self._context.reply_due())
            self.send_neighbor_part(peer, Role.REQUEST, request.random)

    def _decide(self, sender: PeerId, part: Neighbor) -> None:
        """Grant or refuse a peer's request, or measure the peer's RTT first (NEIGHBOR-1, NEIGHBOR-2, NEIGHBOR-5)."""
        views = self._views
        wanted = sender in views.active or sender in self.requests
        if wanted or len(views.active) < self._target_sizes.active_size:
            self._grant(sender, part.random)
        elif self._parameters.overlay is Overlay.HYPARVIEW:
            if part.links == 0:
                self._grant(sender, random=True)
            else:
                self._refuse(sender)
        elif part.links < self._target_sizes.random_links:
            self._grant(sender, random=True)
        elif not part.random and self._target_sizes.near_links and sender not in self._measuring:
            self._measuring[sender] = self._context.reply_due()
            self._connections.hold(sender, (self._topic, "measuring"))
            self._connections.ping(sender)
        else:
            self._refuse(sender)

    def _grant(self, peer: PeerId, random: bool) -> None:
        if not self.accept(peer, random):
            self._refuse(peer)

    def _refuse(self, peer: PeerId) -> None:
        if peer in self._shell.connected:
            self._shell.outbox.episub(peer, Disconnect(self._topic, refused=True))

    def _accepted(self, sender: PeerId, part: Neighbor) -> None:
        """Make the sender of an ACCEPT a neighbour; if there is no room, send DISCONNECT instead."""
        request = self.requests.get(sender)
        self._end_request(sender)
        if sender in self._views.active:
            return
        if not self._make_room():
            self._shell.outbox.episub(sender, Disconnect(self._topic, refused=False))
            return
        self._add(sender, part.random)
        views = self._views
        replaced = request.replaces if request is not None else None
        if replaced in views.active and len(views.active) > self._target_sizes.active_size:
            self.evict(replaced)

    def _make_room(self) -> bool:
        """Return whether there is room for one more neighbour.

        With HyParView there always is: if the active list is full, this method drops a random neighbour. In the
        episub spec the active list may grow beyond A; here its limit is `active_limit`.
        """
        active = self._views.active
        if self._parameters.overlay is not Overlay.HYPARVIEW:
            return len(active) < self._parameters.active_limit
        if len(active) >= self._target_sizes.active_size:
            self.evict(self._views.choose(Purpose.ACTIVE_EVICT, sorted(active)))
        return True

    def _add(self, peer: PeerId, random: bool) -> None:
        self._connections.hold(peer, (self._topic, "link"))
        self._views.add_active(peer, random)

    def _end_request(self, peer: PeerId) -> None:
        if self.requests.pop(peer, None) is not None:
            self._connections.release(peer, (self._topic, "request"))

    def _stop_measuring(self, peer: PeerId) -> bool:
        """Stop waiting for a peer's RTT; return False if no request waited for it."""
        if self._measuring.pop(peer, None) is None:
            return False
        self._connections.release(peer, (self._topic, "measuring"))
        return True

    def _request_failed(self, peer: PeerId, forget: bool) -> None:
        """If a request to a peer is open, end it, since the peer refused or could not be reached. With `forget`, also
        remove the peer from the passive list."""
        if peer not in self.requests:
            return
        self._end_request(peer)
        if forget:
            self._views.remove_passive(peer)
        self._on_refusal(peer)

    def send_neighbor_part(self, peer: PeerId, role: Role, random: bool, peers: tuple[PeerId, ...] = ()) -> None:
        """Send a NEIGHBOR with this role, the numbers of this node's links, and the RTT to the peer (0 if
        unknown)."""
        views = self._views
        link = views.active.get(peer)
        rtt_us = link.rtt_us if link is not None else views.passive.get(peer)
        self._shell.outbox.episub(
            peer, Neighbor(self._topic, role, random, len(views.active), views.random_links, rtt_us or 0, peers)
        )
