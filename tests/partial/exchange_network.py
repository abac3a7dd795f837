"""A network of applications that exchange parts, with the state that routers keep for them."""

from __future__ import annotations

from collections import deque
from itertools import permutations

from hearsay.partial import Partial, PartialFeedback, PartialPeer, PublishPartial

TOPIC = "columns"


class ExchangeNetwork:
    """Applications and their links. `links` are pairs of connected peers; the RPCs of a link keep their order."""

    def __init__(self, applications, links=None, supports=(), outside=()):
        self.applications = dict(enumerate(applications))
        pairs = permutations(self.applications, 2) if links is None else links
        self.links = {link for pair in pairs for link in (tuple(pair), tuple(pair)[::-1])}
        self.supports = set(supports)
        """Peers that send parts and request none."""
        self.outside = set(outside)
        """Links (sender, receiver) whose receiver is not in the sender's mesh; it gets only groups in `known`."""
        self.known = {}
        """By node, peer and group: the last metadata received, the last metadata sent, and the note."""
        self.in_flight = {link: deque() for link in sorted(self.links)}
        self.sent = []
        self.wholes = []
        self.feedback = []

    def apply(self, node, outcome):
        if outcome.whole is not None:
            self.wholes.append((node, outcome.whole))
        for event in outcome.events:
            if isinstance(event, PartialFeedback):
                self.feedback.append((node, event.peer, event.useful))
            else:
                self.publish(node, event)

    def publish(self, node, event: PublishPartial):
        peers = sorted(peer for sender, peer in self.links if sender == node)
        for peer in peers:
            if event.peers is not None and peer not in event.peers:
                continue
            if (node, peer) in self.outside and (node, peer, event.group) not in self.known:
                continue
            last_received, last_sent, note = self.known.get((node, peer, event.group), (None, None, None))
            asked = PartialPeer(peer, peer not in self.supports, False, last_received, last_sent, note)
            answer = self.applications[node].parts_for(event.topic, event.group, asked)
            self.known[node, peer, event.group] = (last_received, answer.metadata or last_sent, answer.note)
            if answer.parts is not None or answer.metadata is not None:
                partial = Partial(event.topic, event.group, answer.parts, answer.metadata)
                self.in_flight[node, peer].append(partial)
                self.sent.append((node, peer, partial))

    def beat(self, group):
        """Remind all applications of a group, as a heartbeat of their routers does."""
        for node, application in self.applications.items():
            self.apply(node, application.reminded(TOPIC, group))

    def waiting(self):
        return [link for link, queue in self.in_flight.items() if queue]

    def deliver(self, link):
        sender, receiver = link
        partial = self.in_flight[link].popleft()
        last_received, last_sent, note = self.known.get((receiver, sender, partial.group), (None, None, None))
        self.known[receiver, sender, partial.group] = (partial.metadata or last_received, last_sent, note)
        self.apply(receiver, self.applications[receiver].received(partial, sender))

    def lose(self, link):
        self.in_flight[link].popleft()

    def metadata_sent(self, sender, receiver):
        return [
            partial.metadata
            for one, other, partial in self.sent
            if (one, other) == (sender, receiver) and partial.metadata is not None
        ]

    def deliver_all(self, choose=lambda waiting: waiting[0]):
        while waiting := self.waiting():
            self.deliver(choose(waiting))

    def parts_sent(self, form, group):
        """Return sender, receiver and index of each part that was sent."""
        return [
            (sender, receiver, index)
            for sender, receiver, partial in self.sent
            if partial.parts is not None and partial.group == group
            for index in form.decode(group, partial.parts)
        ]
