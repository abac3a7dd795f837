"""Links of the active list: NEIGHBOR with its four rules, and DISCONNECT.

Rules (episub spec, "Joining the Overlay"; with overlay = hyparview, HyParView 4.2–4.3):

* NEIGHBOR-1: A node Q decides about a NEIGHBOR request by the first rule that applies. Q grants the request if it has
  room. Q grants a random link if the asker has fewer than C_rand links, as its request states. Q grants a near link
  if Q has enough links and the asker is closer by alpha than the farthest near neighbour with a known RTT, whose link
  is then dropped; Q measures the asker's RTT first. Q refuses all other requests. Requests for a random link are not
  decided by RTT: otherwise a node that has all its links and asks for another random one would displace near links.
* NEIGHBOR-2: HyParView grants a low-priority request if there is room. A request of a peer without links is always
  granted; if there is no room, a random neighbour is dropped.
* NEIGHBOR-3: Q adds the asker and sends ACCEPT; the receiver of an ACCEPT adds the sender. A refusal is a DISCONNECT
  with `refused`. It only answers the request: it does not end a link between the two that was made meanwhile because
  Q sent a request, too.
* NEIGHBOR-4: A peer that treats this node as a neighbour but is not one gets a DISCONNECT (`claimed_as_neighbour`),
  so that a lost part never leaves a lasting one-sided link. A neighbour that replaces its stream gets ACCEPT again:
  it may have forgotten the link.
* NEIGHBOR-5: A request of a peer that this node has asked, too, is granted: two nodes that ask each other are linked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from hearsay.core.episub.parameters import Overlay
from hearsay.core.episub.views import Context, TopicPart
from hearsay.core.language.episub_parts import Disconnect, Neighbor, Role
from hearsay.core.language.identifiers import Micros, PeerId
from hearsay.core.shell.randomness import Purpose


@dataclass(frozen=True, slots=True)
class _Request:
    random: bool
    replaces: PeerId | None
    due: Micros | None
    """End of the wait for the answer; None before the request is sent, while the connection is opened."""


class Neighbours(TopicPart):
    def __init__(self, context: Context, on_refusal: Callable[[PeerId], None]) -> None:
        super().__init__(context)
        self._on_refusal = on_refusal
        self.requests: dict[PeerId, _Request] = {}
        """The node's own requests, by peer, until the peer answers or the time is up."""
        self._judging: dict[PeerId, Micros] = {}
        """Peers that asked for a near link and are being measured, with the end of the wait."""

    def request(self, peer: PeerId, random: bool, replaces: PeerId | None = None) -> None:
        """Ask a peer to become a neighbour, in place of `replaces` if that is given."""
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
                self._judge(sender, part)
            case Role.ACCEPT:
                self._accepted(sender, part)
            case Role.QUERY:
                if sender in self._views.active:
                    self.say(sender, Role.REPLY, False, tuple(self._views.neighbours(sender)))
                else:
                    self.claimed_as_neighbour(sender)
            case Role.REPLY:
                pass  # `Upkeep.on_reply` handles these

    def on_disconnect(self, sender: PeerId, part: Disconnect) -> None:
        if part.refused:
            self._request_failed(sender, forget=False)
        elif sender in self._views.active:
            self.drop(sender, remember=True)

    def take_in(self, peer: PeerId, random: bool) -> bool:
        """Make a connected peer a neighbour and send it ACCEPT. Return False if there is no room."""
        if peer not in self._views.active:
            if not self._make_room():
                return False
            self._add(peer, random)
        self.say(peer, Role.ACCEPT, random)
        return True

    def evict(self, peer: PeerId) -> None:
        """Remove a neighbour and send it DISCONNECT."""
        self.drop(peer, remember=True)
        self._shell.outbox.episub(peer, Disconnect(self._topic, refused=False))

    def drop(self, peer: PeerId, remember: bool) -> None:
        """Remove a neighbour without a DISCONNECT. `remember` adds it to the passive list."""
        self._views.remove_active(peer, remember)
        self._connections.release(peer, (self._topic, "link"))

    def measured(self, peer: PeerId, rtt_us: Micros) -> None:
        """Decide about a request for a near link once the RTT is known (NEIGHBOR-1)."""
        if self._judging.pop(peer, None) is None:
            return
        self._connections.release(peer, (self._topic, "judging"))
        views = self._views
        if peer in views.active:
            return
        farthest = views.farthest_near()
        if farthest is not None and self._target_sizes.enough(len(views.active)) and self.closer(rtt_us, farthest):
            self.evict(farthest)
            self.take_in(peer, random=False)
        else:
            self._refuse(peer)

    def closer(self, rtt_us: Micros, near: PeerId) -> bool:
        """Return whether an RTT is below that of a near neighbour by the factor alpha."""
        other_us = self._views.active[near].rtt_us
        return other_us is not None and rtt_us * 100 < other_us * self._parameters.alpha_percent

    def claimed_as_neighbour(self, peer: PeerId) -> None:
        """Answer a peer that treats this node as its neighbour (NEIGHBOR-4)."""
        if peer not in self.requests:
            self._shell.outbox.episub(peer, Disconnect(self._topic, refused=False))

    def lost(self, peer: PeerId) -> bool:
        """Handle a peer that is disconnected or left the topic; return True if it was a neighbour."""
        if self._judging.pop(peer, None) is not None:
            self._connections.release(peer, (self._topic, "judging"))
        was_neighbour = peer in self._views.active
        if was_neighbour:
            self.drop(peer, remember=False)
        self._request_failed(peer, forget=True)
        return was_neighbour

    def expire(self) -> None:
        """Give up own requests without an answer, and refuse requests of peers whose RTT was not measured in time."""
        now = self._shell.now
        asked = {peer: request.due for peer, request in self.requests.items() if request.due is not None}
        for peer in sorted(peer for peer, due in asked.items() if due <= now):
            self._request_failed(peer, forget=False)
        for peer in sorted(peer for peer, due in self._judging.items() if due <= now):
            del self._judging[peer]
            self._connections.release(peer, (self._topic, "judging"))
            self._refuse(peer)

    def dues(self) -> Iterator[Micros]:
        """Yield the times at which `expire` must be called."""
        yield from (request.due for request in self.requests.values() if request.due is not None)
        yield from self._judging.values()

    def stop(self) -> None:
        for peer in list(self.requests):
            self._connections.release(peer, (self._topic, "request"))
        for peer in list(self._judging):
            self._connections.release(peer, (self._topic, "judging"))
        self.requests.clear()
        self._judging.clear()

    def _ask(self, peer: PeerId) -> None:
        request = self.requests.get(peer)
        if request is None:
            return
        if peer in self._views.active:
            self._finish(peer)
        else:
            self.requests[peer] = replace(request, due=self._context.reply_due())
            self.say(peer, Role.REQUEST, request.random)

    def _judge(self, sender: PeerId, part: Neighbor) -> None:
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
        elif not part.random and self._target_sizes.near_links and sender not in self._judging:
            self._judging[sender] = self._context.reply_due()
            self._connections.hold(sender, (self._topic, "judging"))
            self._connections.ping(sender)
        else:
            self._refuse(sender)

    def _grant(self, peer: PeerId, random: bool) -> None:
        if not self.take_in(peer, random):
            self._refuse(peer)

    def _refuse(self, peer: PeerId) -> None:
        if peer in self._shell.connected:
            self._shell.outbox.episub(peer, Disconnect(self._topic, refused=True))

    def _accepted(self, sender: PeerId, part: Neighbor) -> None:
        request = self.requests.get(sender)
        self._finish(sender)
        if sender in self._views.active:
            return
        if not self._make_room():
            self._shell.outbox.episub(sender, Disconnect(self._topic, refused=False))
            return
        self._add(sender, part.random)
        views = self._views
        gives_way = request.replaces if request is not None else None
        if gives_way in views.active and len(views.active) > self._target_sizes.active_size:
            self.evict(gives_way)

    def _make_room(self) -> bool:
        """Return True if there is room for a neighbour.

        In HyParView a random neighbour of a full list is dropped. In the spec the list may grow up to `active_limit`.
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

    def _finish(self, peer: PeerId) -> None:
        if self.requests.pop(peer, None) is not None:
            self._connections.release(peer, (self._topic, "request"))

    def _request_failed(self, peer: PeerId, forget: bool) -> None:
        if peer not in self.requests:
            return
        self._finish(peer)
        if forget:
            self._views.remove_passive(peer)
        self._on_refusal(peer)

    def say(self, peer: PeerId, role: Role, random: bool, peers: tuple[PeerId, ...] = ()) -> None:
        """Send a NEIGHBOR with the numbers of this node's links, and with the RTT to the peer, 0 if unknown."""
        views = self._views
        link = views.active.get(peer)
        rtt_us = link.rtt_us if link is not None else views.passive.get(peer)
        self._shell.outbox.episub(
            peer, Neighbor(self._topic, role, random, len(views.active), views.random_links, rtt_us or 0, peers)
        )
