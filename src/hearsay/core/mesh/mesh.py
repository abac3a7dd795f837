"""The mesh: per topic the peers with which full messages are exchanged, by mutual consent.

Rules (r1, "mesh" and the heartbeat; tech report 3.2.2 and figures 5–8; guide, "Grafting and pruning"):

* MESH-1: JOIN grafts preferred peers first (fan-out), then random ones, up to D. LEAVE PRUNEs all.
* MESH-4: If a GRAFT or PRUNE could not be sent, the next RPC to that peer, at the latest in the next heartbeat, has a
  GRAFT if the peer is in the mesh then, otherwise a PRUNE. The PRUNE names what is left of the backoff, so that both
  sides end it together.
* MESH-5: A PRUNE may name other peers of the topic (peer exchange, v1.1). Peers that speak v1.0 get the plain PRUNE.

`mesh_requests.py` has the answers to GRAFT and PRUNE, `mesh_upkeep.py` the upkeep in a heartbeat.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hearsay.core.language.actions import PeerGrafted, PeerPruned
from hearsay.core.language.identifiers import Micros, PeerId, TopicId
from hearsay.core.language.rpc import PeerInfo, Prune, Rpc, knows_backoff
from hearsay.core.language.state import Peering
from hearsay.core.mesh.graft_bounds import Backoffs, LastingBackoffs, Spread
from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.mesh.standing import Standing
from hearsay.core.rules.mesh_rules import (
    first_heartbeat,
    has_room_for_one,
    next_heartbeat,
    received_backoff,
    seconds_to_name,
)
from hearsay.core.rules.mixing import MASK
from hearsay.core.shell.peers import ConnectedPeer, PeerGroup
from hearsay.core.shell.randomness import Purpose, key_of, sample
from hearsay.core.shell.strategy import Shell

EXPIRE_EVERY = 15
"""Heartbeats between two removals of expired backoffs."""

MAX_UNSENT = 1_000
"""Maximum number of topics, not joined, for which a PRUNE to a peer could not be sent and is repeated. The peer
chooses their names by its GRAFTs."""

NO_PEERS = PeerGroup()
"""Mesh of a topic that is not joined. Never changed."""

LEAVING, REFUSING = -1, -2
"""Numbers used in place of a heartbeat's number in draws for a leave and for a refused GRAFT."""


class MeshHeartbeat:
    """The heartbeat, which sets the time of the shell's timer. After a late call, missed beats are skipped."""

    def __init__(self, parameters: GossipsubParameters, shell: Shell) -> None:
        self._shell = shell
        self._interval_us = parameters.heartbeat_interval_ms * 1000
        spread_us = parameters.first_heartbeat_spread_ms * 1000
        phase = shell.randomness.below(spread_us + 1, Purpose.HEARTBEAT_PHASE, shell.key)
        self.due: Micros = first_heartbeat(shell.now, parameters.first_heartbeat_ms * 1000, phase)
        shell.due = self.due
        self.tick = 0

    def advance(self) -> int:
        """Set the next beat and return the number of this one, from 1."""
        self.tick += 1
        self._shell.due = self.due = next_heartbeat(self.due, self._interval_us, self._shell.now)
        return self.tick


class Mesh:
    """The meshes of all joined topics of one router."""

    def __init__(self, parameters: GossipsubParameters, shell: Shell, standing: Standing) -> None:
        self._parameters = parameters
        self._shell = shell
        self._standing = standing
        self.backoffs = _new_backoffs(parameters)
        self.spread = Spread(parameters.places_per_address, shell.peers)
        self.topics: dict[TopicId, PeerGroup] = {}
        self.hides_peers = False
        """True while an RPC with a misplaced GRAFT is handled: PRUNEs then name no other peers."""
        self._unsent: dict[PeerId, set[TopicId]] = {}
        """Topics for which a GRAFT or PRUNE was not sent, by peer."""
        self._unsubscribed: dict[PeerId, set[TopicId]] = {}
        """Topics whose meshes connected peers left by UNSUBSCRIBE, and for which they have not sent PRUNE since."""

    def join(self, topic: TopicId, preferred: Iterable[PeerId], tick: int) -> None:
        """Build the mesh of a topic: preferred peers first, then random ones, up to D."""
        mesh = self.topics[topic] = PeerGroup()
        for peer in preferred:
            if self.may_graft(topic, peer):
                self.add(topic, peer)
        missing = self._parameters.degree - len(mesh)
        self.graft_random(topic, missing, missing, Purpose.JOIN, tick)

    def leave(self, topic: TopicId) -> None:
        """PRUNE all members of a topic and forget it."""
        for peer in self.topics.pop(topic):
            self._left(topic, peer)
            self.part(peer, topic, self._parameters.unsubscribe_backoff_ms, self.others(topic, peer, LEAVING))

    def graft(self, topic: TopicId, peer: PeerId) -> None:
        """GRAFT this peer in a joined topic, if it may be grafted and the mesh has room."""
        mesh = self.topics[topic]
        room = has_room_for_one(len(mesh), self._parameters.prune_from)
        if peer not in mesh and room and self.may_graft(topic, peer):
            self.add(topic, peer)

    def graft_random(self, topic: TopicId, own: int, total: int, purpose: Purpose, tick: int) -> None:
        """GRAFT up to `own` random peers with places of their own, then others with lent places, up to `total`."""
        state = self._shell.draw(purpose, topic, tick)
        for peer in self.spread.choose(state, self.candidates(topic), own, total, self.topics[topic]):
            self.add(topic, peer)

    def add(self, topic: TopicId, peer: PeerId) -> None:
        """GRAFT a peer without further checks."""
        if self.topics[topic].add(peer):
            self.entered(topic, peer)
            self._shell.outbox.graft(peer, topic)

    def prune(self, topic: TopicId, peer: PeerId, others: tuple[PeerInfo, ...]) -> None:
        """PRUNE a member; the PRUNE names `others`."""
        self.topics[topic].discard(peer)
        self._left(topic, peer)
        self.part(peer, topic, self._parameters.prune_backoff_ms, others)

    def prune_everywhere(self, peer: PeerId) -> None:
        """PRUNE a peer that is direct from now on."""
        for topic in sorted(self.topics):
            if peer in self.topics[topic]:
                self.prune(topic, peer, ())

    def entered(self, topic: TopicId, peer: PeerId) -> None:
        """Report a new member, and count it in its score."""
        self._shell.actions.append(PeerGrafted(topic, peer))
        if self._unsubscribed:
            self._unsubscribed.get(peer, set()).discard(topic)
        self._standing.graft(peer, topic)

    def remove(self, peer: PeerId, topic: TopicId) -> None:
        """Remove a member without a PRUNE."""
        mesh = self.topics.get(topic)
        if mesh is not None and mesh.discard(peer):
            self._left(topic, peer)

    def remove_peer(self, peer: ConnectedPeer) -> None:
        """Forget a peer that disconnects."""
        for topic in sorted(peer.topics):
            self.remove(peer.id, topic)
        self._unsent.pop(peer.id, None)
        self._unsubscribed.pop(peer.id, None)

    def peer_unsubscribed(self, peer: PeerId, topic: TopicId) -> None:
        parameters = self._parameters
        if peer in self.topics.get(topic, ()):
            if parameters.backoff_on_unsubscribe:
                self.backoffs.start(topic, peer, self._shell.now, parameters.prune_backoff_ms * 1000)
            self._unsubscribed.setdefault(peer, set()).add(topic)
        self.remove(peer, topic)

    def has_unsubscribed(self, peer: PeerId, topic: TopicId) -> bool:
        """Return True for the first PRUNE after an UNSUBSCRIBE by which the peer left the mesh."""
        topics = self._unsubscribed.get(peer, set())
        belongs = topic in topics
        topics.discard(topic)
        return belongs

    def may_graft(self, topic: TopicId, peer: PeerId) -> bool:
        """Return whether a peer that is not a member may be grafted."""
        now = self._shell.now
        return self._standing.may_be_in_mesh(peer) and not self.backoffs.forbids_graft(topic, peer, now)

    def candidates(self, topic: TopicId) -> Sequence[PeerId]:
        """Return the peers that are not members and may be grafted, ascending."""
        members, now = self.topics[topic].members, self._shell.now
        found = [peer for peer in self._shell.peers.in_topic(topic).native.ordered if peer not in members]
        if len(self.backoffs):
            found = [peer for peer in found if not self.backoffs.forbids_graft(topic, peer, now)]
        return self._standing.for_mesh(found)

    def obey_backoff(self, peer: PeerId, prune: Prune) -> None:
        """Begin the backoff that a peer's PRUNE names."""
        parameters = self._parameters
        if parameters.prune_backoff_ms:
            backoff = received_backoff(
                prune.backoff_s is not None,
                prune.backoff_s or 0,
                parameters.prune_backoff_ms * 1000,
                parameters.max_backoff_ms * 1000,
            )
            self.backoffs.start(prune.topic, peer, self._shell.now, backoff)

    def part(self, peer: PeerId, topic: TopicId, backoff_ms: int, others: tuple[PeerInfo, ...] = ()) -> None:
        """Send a PRUNE and, with backoffs on, begin its backoff."""
        if self._parameters.prune_backoff_ms:
            self.backoffs.start(topic, peer, self._shell.now, backoff_ms * 1000)
        self._say_prune(peer, topic, backoff_ms * 1000, others)

    def others(self, topic: TopicId, peer: PeerId, tick: int) -> tuple[PeerInfo, ...]:
        """Return random other peers for a PRUNE to name. The driver adds their signed addresses, if it has them."""
        count = self._parameters.exchange_peers
        if not count or self.hides_peers:
            return ()
        state = self._shell.draw(Purpose.PEER_EXCHANGE, topic, tick & MASK, key_of(peer))
        return tuple(map(PeerInfo, sample(state, self.worth_naming(topic, peer), count)))

    def worth_naming(self, topic: TopicId, peer: PeerId) -> list[PeerId]:
        """Return the peers that a PRUNE to a peer may name."""
        others = self._standing.welcome(self._shell.peers.in_topic(topic).native.ordered)
        return [other for other in others if other != peer]

    def graft_again(self, peer: PeerId) -> None:
        """Send GRAFT again for each topic whose mesh has the peer; a peer that has the link, too, ignores it."""
        for topic in sorted(self.topics):
            if peer in self.topics[topic]:
                self._shell.outbox.graft(peer, topic)

    def send_failed(self, peer: PeerId, rpc: Rpc) -> None:
        """Remember the topics for which a GRAFT or PRUNE to this peer was not sent."""
        if rpc.control is None:
            return
        parts = (*rpc.control.graft, *rpc.control.prune)
        if parts:
            unsent = self._unsent.setdefault(peer, set())
            unsent.update(part.topic for part in parts if part.topic in self.topics or len(unsent) < MAX_UNSENT)

    def say_again(self, peers: Iterable[PeerId] | None = None) -> None:
        """Repeat GRAFTs or PRUNEs that were not sent to these peers, or to all peers (None), as in MESH-4."""
        for peer in sorted(self._unsent) if peers is None else peers:
            for topic in sorted(self._unsent.pop(peer, ())):
                if peer in self.topics.get(topic, ()):
                    self._shell.outbox.graft(peer, topic)
                else:
                    self._say_prune(peer, topic, self.backoffs.remaining_us(topic, peer, self._shell.now))

    def peerings(self) -> Iterator[tuple[TopicId, PeerId, Peering]]:
        for topic in sorted(self.topics):
            for peer in self.topics[topic]:
                yield topic, peer, Peering.FULL_MESSAGE

    def _left(self, topic: TopicId, peer: PeerId) -> None:
        self._shell.actions.append(PeerPruned(topic, peer))
        self._standing.prune(peer, topic)

    def _say_prune(self, peer: PeerId, topic: TopicId, backoff_us: Micros, others: tuple[PeerInfo, ...] = ()) -> None:
        """Send PRUNE. It has the backoff and other peers if there is a backoff and the peer's version knows them."""
        timed = knows_backoff(self._shell.connected[peer].protocol) and backoff_us > 0
        prune = Prune(topic, seconds_to_name(backoff_us), others) if timed else Prune(topic)
        self._shell.outbox.prune(peer, prune)


def _new_backoffs(parameters: GossipsubParameters) -> Backoffs:
    if parameters.backoff_until_forgotten:
        return LastingBackoffs(parameters.max_backoffs, parameters.backoff_slack_us + 1)
    return Backoffs(parameters.max_backoffs, parameters.backoff_slack_us)
