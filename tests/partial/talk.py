"""Applications that exchange parts, with the state that routers keep for them, and RPCs that arrive in any order."""

from __future__ import annotations

from collections import deque
from itertools import permutations

from hearsay.partial import Partial, PartialFeedback, PartialPeer, PublishPartial

TOPIC = "columns"


class Talk:
    """A network of applications. `links` are pairs of connected peers; the RPCs of a link keep their order."""

    def __init__(self, applications, links=None, supports=(), outside=()):
        self.applications = dict(enumerate(applications))
        pairs = permutations(self.applications, 2) if links is None else links
        self.links = {link for pair in pairs for link in (tuple(pair), tuple(pair)[::-1])}
        self.supports = set(supports)
        """Peers that send parts and request none."""
        self.outside = set(outside)
        """Links whose first peer does not have the second in its mesh: it only sends about groups that are known."""
        self.known = {}
        """Last metadata received, last metadata sent and note, by node, peer and group."""
        self.under_way = {link: deque() for link in sorted(self.links)}
        self.sent = []
        self.wholes = []
        self.feedback = []

    def follow(self, node, outcome):
        if outcome.whole is not None:
            self.wholes.append((node, outcome.whole))
        for event in outcome.events:
            if isinstance(event, PartialFeedback):
                self.feedback.append((node, event.peer, event.useful))
            else:
                self.publish(node, event)

    def publish(self, node, event: PublishPartial):
        peers = sorted(peer for speaker, peer in self.links if speaker == node)
        for peer in peers:
            if event.peers is not None and peer not in event.peers:
                continue
            if (node, peer) in self.outside and (node, peer, event.group) not in self.known:
                continue
            last_received, last_sent, note = self.known.get((node, peer, event.group), (None, None, None))
            asked = PartialPeer(peer, peer not in self.supports, False, last_received, last_sent, note)
            said = self.applications[node].parts_for(event.topic, event.group, asked)
            self.known[node, peer, event.group] = (last_received, said.metadata or last_sent, said.note)
            if said.parts is not None or said.metadata is not None:
                partial = Partial(event.topic, event.group, said.parts, said.metadata)
                self.under_way[node, peer].append(partial)
                self.sent.append((node, peer, partial))

    def beat(self, group):
        """Remind all applications of a group, as a heartbeat of their routers does."""
        for node, application in self.applications.items():
            self.follow(node, application.reminded(TOPIC, group))

    def waiting(self):
        return [link for link, queue in self.under_way.items() if queue]

    def deliver(self, link):
        speaker, hearer = link
        partial = self.under_way[link].popleft()
        last_received, last_sent, note = self.known.get((hearer, speaker, partial.group), (None, None, None))
        self.known[hearer, speaker, partial.group] = (partial.metadata or last_received, last_sent, note)
        self.follow(hearer, self.applications[hearer].received(partial, speaker))

    def lose(self, link):
        self.under_way[link].popleft()

    def metadata_sent(self, speaker, hearer):
        return [
            partial.metadata
            for one, other, partial in self.sent
            if (one, other) == (speaker, hearer) and partial.metadata is not None
        ]

    def finish(self, choose=lambda waiting: waiting[0]):
        while waiting := self.waiting():
            self.deliver(choose(waiting))

    def parts_sent(self, form, group):
        """Return sender, receiver and index of each part that was sent."""
        return [
            (speaker, hearer, index)
            for speaker, hearer, partial in self.sent
            if partial.parts is not None and partial.group == group
            for index in form.decode(group, partial.parts)
        ]
