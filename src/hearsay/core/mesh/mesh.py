"""The mesh of a topic: the peers with which the router exchanges full messages. A peer in the mesh is a member.

Both sides agree to each link of a mesh. "To GRAFT a peer" means to add it to the mesh and send it GRAFT; "to PRUNE a
peer" means to remove it from the mesh and send it PRUNE.

Rules (r1, "mesh" and the heartbeat; tech report 3.2.2 and figures 5–8; guide, "Grafting and pruning"):

* MESH-1: When the application joins a topic, the router GRAFTs the fan-out peers of the topic, and then random peers,
  up to D. When the application leaves the topic, the router PRUNEs all members.
* MESH-4: If a GRAFT or PRUNE could not be sent, the next RPC to that peer has a GRAFT if the peer is in the mesh by
  then, otherwise a PRUNE. This RPC is sent in the next heartbeat or earlier. The PRUNE names the rest of the backoff,
  so that the backoff ends at the same time on both sides.
* MESH-5: A PRUNE may name other peers of the topic (peer exchange, v1.1). A PRUNE to a peer of v1.0 names only the
  topic.

`mesh_requests.py` has the answers to GRAFT and PRUNE, `meshsub.py` the upkeep in a heartbeat.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hearsay.core.language.actions import PeerGrafted, PeerPruned
from hearsay.core.language.identifiers import Micros, PeerId, TopicId
from hearsay.core.language.rpc import PeerInfo, Prune, Rpc, knows_backoff
from hearsay.core.mesh.graft_bounds import Backoffs, Spread
from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.mesh.standing import Standing
from hearsay.core.rules.mesh_rules import (
    first_heartbeat,
    has_room_for_one,
    next_heartbeat,
    received_backoff,
    seconds_to_name,
)
from hearsay.core.rules.randomness import MASK, Purpose, key_of, sample
from hearsay.core.shell.guarantees import Peering
from hearsay.core.shell.peers import ConnectedPeer, PeerGroup
from hearsay.core.shell.strategy import Shell

EXPIRE_EVERY = 15
"""Heartbeats between two removals of expired backoffs."""

MAX_UNSENT = 1_000
"""If a PRUNE for a topic that is not joined could not be sent, it is repeated only while the peer has fewer unsent
topics than this. Without a limit, the peer could add any number of topics by its GRAFTs."""

EMPTY_MESH = PeerGroup()
"""The mesh of a topic that is not joined: an empty group that is never changed."""

LEAVING, REFUSING = -1, -2
"""Numbers in place of the heartbeat's number in the draw of the peers that a PRUNE names: LEAVING when the router
leaves a topic, REFUSING when it handles a GRAFT."""


class MeshHeartbeat:
    """The heartbeat, which sets the shell's timer. If a heartbeat is handled late, the heartbeats that were due
    meanwhile are skipped."""

    def __init__(self, parameters: GossipsubParameters, shell: Shell) -> None:
        self._shell = shell
        self._interval_us = parameters.heartbeat_interval_ms * 1000
        spread_us = parameters.first_heartbeat_spread_ms * 1000
        phase = shell.randomness.below(spread_us + 1, Purpose.HEARTBEAT_PHASE, shell.key)
        self.due: Micros = first_heartbeat(shell.now, parameters.first_heartbeat_ms * 1000, phase)
        shell.due = self.due
        self.tick = 0

    def advance(self) -> int:
        """Set the time of the next heartbeat, and return the number of this one; the first has the number 1."""
        self.tick += 1
        self._shell.due = self.due = next_heartbeat(self.due, self._interval_us, self._shell.now)
        return self.tick


class Mesh:
    """The meshes of all joined topics of one router."""

    def __init__(self, parameters: GossipsubParameters, shell: Shell, standing: Standing) -> None:
        self.parameters = parameters
        self.shell = shell
        self.standing = standing
        until_forgotten = parameters.backoff_until_forgotten
        slack_us = parameters.backoff_slack_us + until_forgotten
        self.backoffs = Backoffs(parameters.max_backoffs, slack_us, until_forgotten)
        self.spread = Spread(parameters.places_per_address, shell.peers)
        self.topics: dict[TopicId, PeerGroup] = {}
        self.hides_peers = False
        """True if the RPC that is handled now had a misplaced GRAFT: one that was refused, but not because the mesh
        is full. While this is True, PRUNEs name no other peers."""
        self._unsent: dict[PeerId, set[TopicId]] = {}
        """By peer, the topics for which a GRAFT or PRUNE could not be sent ("unsent topics")."""
        self._unsubscribed: dict[PeerId, set[TopicId]] = {}
        """By connected peer, the topics whose mesh the peer left by UNSUBSCRIBE. A topic is removed when the peer
        sends PRUNE for it, or enters the mesh again."""

    def join(self, topic: TopicId, preferred: Iterable[PeerId], tick: int) -> None:
        """Build the mesh of a topic: GRAFT the `preferred` peers that may be grafted, then random peers up to D."""
        mesh = self.topics[topic] = PeerGroup()
        for peer in preferred:
            if self.may_graft(topic, peer):
                self.add(topic, peer)
        missing = self.parameters.degree - len(mesh)
        self.graft_random(topic, missing, missing, Purpose.JOIN, tick)

    def leave(self, topic: TopicId) -> None:
        """PRUNE all members of the topic's mesh, and remove the mesh."""
        for peer in self.topics.pop(topic):
            self._left(topic, peer)
            self.send_prune(
                peer, topic, self.parameters.unsubscribe_backoff_ms, self.peers_to_name(topic, peer, LEAVING)
            )

    def graft(self, topic: TopicId, peer: PeerId) -> None:
        """GRAFT this peer in a joined topic, if the peer is not a member and may be grafted, and the mesh has
        room."""
        mesh = self.topics[topic]
        room = has_room_for_one(len(mesh), self.parameters.prune_from)
        if peer not in mesh and room and self.may_graft(topic, peer):
            self.add(topic, peer)

    def graft_random(self, topic: TopicId, own: int, total: int, purpose: Purpose, tick: int) -> None:
        """GRAFT random peers: up to `own` with places of their own, then peers with lent places up to `total` in
        all."""
        state = self.shell.draw(purpose, topic, tick)
        for peer in self.spread.choose(state, self.candidates(topic), own, total, self.topics[topic]):
            self.add(topic, peer)

    def add(self, topic: TopicId, peer: PeerId) -> None:
        """GRAFT a peer without further checks; do nothing if the peer is a member already."""
        if self.topics[topic].add(peer):
            self.entered(topic, peer)
            self.shell.outbox.graft(peer, topic)

    def prune(self, topic: TopicId, peer: PeerId, others: tuple[PeerInfo, ...]) -> None:
        """PRUNE a member, with the usual backoff; the PRUNE names `others`."""
        self.topics[topic].discard(peer)
        self._left(topic, peer)
        self.send_prune(peer, topic, self.parameters.prune_backoff_ms, others)

    def prune_everywhere(self, peer: PeerId) -> None:
        """PRUNE a peer from all meshes, since the peer is a direct peer from now on."""
        for topic in sorted(self.topics):
            if peer in self.topics[topic]:
                self.prune(topic, peer, ())

    def entered(self, topic: TopicId, peer: PeerId) -> None:
        """Report a new member of a mesh, and note this in the peer's score."""
        self.shell.actions.append(PeerGrafted(topic, peer))
        if self._unsubscribed:
            self._unsubscribed.get(peer, set()).discard(topic)
        self.standing.graft(peer, topic)

    def remove(self, peer: PeerId, topic: TopicId) -> None:
        """Remove a member without a PRUNE."""
        mesh = self.topics.get(topic)
        if mesh is not None and mesh.discard(peer):
            self._left(topic, peer)

    def remove_peer(self, peer: ConnectedPeer) -> None:
        """Remove a peer that disconnects from all meshes. Its backoffs remain."""
        for topic in sorted(peer.topics):
            self.remove(peer.id, topic)
        self._unsent.pop(peer.id, None)
        self._unsubscribed.pop(peer.id, None)

    def peer_unsubscribed(self, peer: PeerId, topic: TopicId) -> None:
        parameters = self.parameters
        if peer in self.topics.get(topic, ()):
            if parameters.backoff_on_unsubscribe:
                self.backoffs.start(topic, peer, self.shell.now, parameters.prune_backoff_ms * 1000)
            self._unsubscribed.setdefault(peer, set()).add(topic)
        self.remove(peer, topic)

    def has_unsubscribed(self, peer: PeerId, topic: TopicId) -> bool:
        """Return whether a peer left the mesh by UNSUBSCRIBE and has sent no PRUNE for the topic since.

        Then forget the UNSUBSCRIBE, so that the next call returns False.
        """
        topics = self._unsubscribed.get(peer, set())
        belongs = topic in topics
        topics.discard(topic)
        return belongs

    def may_graft(self, topic: TopicId, peer: PeerId) -> bool:
        """Return whether the score and the backoff of a peer allow a GRAFT; never for a direct peer."""
        now = self.shell.now
        return self.standing.may_be_in_mesh(peer) and not self.backoffs.forbids_graft(topic, peer, now)

    def candidates(self, topic: TopicId) -> Sequence[PeerId]:
        """Return the peers of a joined topic that are not members and may be grafted, ascending."""
        members, now = self.topics[topic].members, self.shell.now
        found = [peer for peer in self.shell.peers.in_topic(topic).native.ordered if peer not in members]
        if len(self.backoffs):
            found = [peer for peer in found if not self.backoffs.forbids_graft(topic, peer, now)]
        return self.standing.among(found, self.standing.may_be_in_mesh)

    def obey_backoff(self, peer: PeerId, prune: Prune) -> None:
        """Begin the backoff that a peer's PRUNE names, or `prune_backoff_ms` if the PRUNE names none or 0; at most
        `max_backoff_ms`. Do nothing if backoffs are off."""
        parameters = self.parameters
        if parameters.prune_backoff_ms:
            backoff = received_backoff(
                prune.backoff_s is not None,
                prune.backoff_s or 0,
                parameters.prune_backoff_ms * 1000,
                parameters.max_backoff_ms * 1000,
            )
            self.backoffs.start(prune.topic, peer, self.shell.now, backoff)

    def send_prune(self, peer: PeerId, topic: TopicId, backoff_ms: int, others: tuple[PeerInfo, ...] = ()) -> None:
        """Send a PRUNE to a peer. If backoffs are on, begin a backoff of `backoff_ms`, even if the peer speaks 1.0
        and the PRUNE names none."""
        if self.parameters.prune_backoff_ms:
            self.backoffs.start(topic, peer, self.shell.now, backoff_ms * 1000)
        self._put_prune(peer, topic, backoff_ms * 1000, others)

    def peers_to_name(self, topic: TopicId, peer: PeerId, tick: int) -> tuple[PeerInfo, ...]:
        """Return the random peers of a topic that a PRUNE to `peer` names; none if `hides_peers`.

        The driver adds the signed addresses of these peers if it has them.
        """
        count = self.parameters.exchange_peers
        if not count or self.hides_peers:
            return ()
        native = self.shell.peers.in_topic(topic).native.ordered
        welcome = self.standing.among(native, self.standing.is_welcome)
        state = self.shell.draw(Purpose.PEER_EXCHANGE, topic, tick & MASK, key_of(peer))
        return tuple(map(PeerInfo, sample(state, [other for other in welcome if other != peer], count)))

    def graft_again(self, peer: PeerId) -> None:
        """Send GRAFT again to a peer, for each topic in whose mesh the peer is. If the mesh of the peer still has
        this router, the peer ignores the GRAFT."""
        for topic in sorted(self.topics):
            if peer in self.topics[topic]:
                self.shell.outbox.graft(peer, topic)

    def send_failed(self, peer: PeerId, rpc: Rpc) -> None:
        """Remember the topics of the GRAFTs and PRUNEs in an RPC that could not be sent to this peer (MESH-4)."""
        if rpc.control is None:
            return
        parts = (*rpc.control.graft, *rpc.control.prune)
        if parts:
            unsent = self._unsent.setdefault(peer, set())
            unsent.update(part.topic for part in parts if part.topic in self.topics or len(unsent) < MAX_UNSENT)

    def repeat_unsent(self, peers: Iterable[PeerId] | None = None) -> None:
        """Send these peers a GRAFT or a PRUNE for each of their unsent topics (MESH-4); None stands for all peers."""
        for peer in sorted(self._unsent) if peers is None else peers:
            for topic in sorted(self._unsent.pop(peer, ())):
                if peer in self.topics.get(topic, ()):
                    self.shell.outbox.graft(peer, topic)
                else:
                    self._put_prune(peer, topic, self.backoffs.remaining_us(topic, peer, self.shell.now))

    def peerings(self) -> Iterator[tuple[TopicId, PeerId, Peering]]:
        for topic in sorted(self.topics):
            for peer in self.topics[topic]:
                yield topic, peer, Peering.FULL_MESSAGE

    def _left(self, topic: TopicId, peer: PeerId) -> None:
        """Report that a member left the mesh, and note this in the peer's score."""
        self.shell.actions.append(PeerPruned(topic, peer))
        self.standing.prune(peer, topic)

    def _put_prune(self, peer: PeerId, topic: TopicId, backoff_us: Micros, others: tuple[PeerInfo, ...] = ()) -> None:
        """Send a PRUNE. The PRUNE names the backoff and `others` if the backoff is not 0 and the peer's version of
        the protocol has these fields; otherwise only the topic."""
        timed = knows_backoff(self.shell.connected[peer].protocol) and backoff_us > 0
        prune = Prune(topic, seconds_to_name(backoff_us), others) if timed else Prune(topic)
        self.shell.outbox.prune(peer, prune)
