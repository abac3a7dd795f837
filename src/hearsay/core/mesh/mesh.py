"""The mesh: per topic the peers one exchanges full messages with, by mutual consent.

Rules (r1, "mesh" and the heartbeat; tech report 3.2.2 and figures 5–8; guide, "Grafting and pruning"):

* MESH-1: JOIN takes preferred peers first (fan-out), then random ones, up to D, and GRAFTs them. LEAVE PRUNEs all.
* MESH-2: Upkeep comes once per heartbeat and topic; how many it GRAFTs or PRUNEs say SIZE-1 and SIZE-2. Who it is, is
  random.
* MESH-3: What a received GRAFT gets says `rules/graft_answers.py`. A mesh that takes in everybody until its upkeep
  (r1) belongs to whoever says GRAFT under many names between two heartbeats, since upkeep then chooses among those
  who came; so `full_mesh` may refuse (v1.1, go).
* MESH-4: A GRAFT or PRUNE that could not be sent is sent again with the next RPC to that peer, at the latest with the
  next heartbeat, if it is still true. The PRUNE then names what is left of the backoff: both sides end it together.
* MESH-5: A PRUNE may name others of the topic (peer exchange, v1.1). Peers that speak v1.0 get the plain PRUNE.
* MESH-6: The receiver dials them if `accept_exchange` says so: of one PRUNE `exchange_dials`, or as many as it would
  name itself, and of all between two heartbeats `MAX_DIALS` (go: so many dials wait; *reference only:*
  `accept_exchange`). Each of these dials is told (`NamedPeerDialled`).

Theory: D_low <= D <= D_high makes the two branches of upkeep exclude each other, so it does not matter whether the
degree is counted once (simsub's actor) or before each branch (r1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hearsay.core.language.actions import Dial, NamedPeerDialled, PeerGrafted, PeerPruned, Reason
from hearsay.core.language.identifiers import Micros, PeerId, TopicId
from hearsay.core.language.rpc import PartKind, PeerInfo, Prune, Rpc, knows_backoff
from hearsay.core.language.state import Peering
from hearsay.core.mesh.graft_bounds import Backoffs, Spread
from hearsay.core.mesh.parameters import MeshParameters, UnknownGraft
from hearsay.core.rules.mesh_rules import (
    BACKOFF_PRUNE,
    BARE_PRUNE,
    EXCHANGE_PRUNE,
    IN_BACKOFF,
    MEMBER,
    MESH_IS_FULL,
    TAKEN_IN,
    first_heartbeat,
    graft_answer,
    has_room_for_one,
    is_full,
    mesh_change,
    next_heartbeat,
    received_backoff,
    seconds_to_name,
)
from hearsay.core.rules.mixing import MASK
from hearsay.core.shell.peers import ConnectedPeer, PeerGroup
from hearsay.core.shell.randomness import Purpose, key_of, sample
from hearsay.core.shell.strategy import Shell

EXPIRE_EVERY = 15
"""Heartbeats between two looks for backoffs that are over."""


MAX_UNSENT = 1_000
"""Topics that one is not in, and whose PRUNE did not leave for a peer; of more of them it does not hear again. A peer
chooses these names by its GRAFTs."""

MAX_DIALS = 128
"""Peers named by others that are dialled between two heartbeats. One RPC has room for many PRUNEs."""

_NO_PEERS = PeerGroup()
"""The mesh of a topic one is not in. Never changed."""

_LEAVING, _REFUSING = -1, -2
"""In place of a heartbeat's number, for draws of their own."""


class Heartbeat:
    """Sets when the shell's timer is due; late calls skip beats rather than pile them up."""

    __slots__ = ("_interval_us", "_shell", "due", "tick")

    def __init__(self, parameters: MeshParameters, shell: Shell) -> None:
        self._shell = shell
        self._interval_us = parameters.heartbeat_interval_ms * 1000
        spread_us = parameters.first_heartbeat_spread_ms * 1000
        phase = shell.randomness.below(spread_us + 1, Purpose.HEARTBEAT_PHASE, shell.key)
        self.due: Micros = first_heartbeat(shell.now, parameters.first_heartbeat_ms * 1000, phase)
        shell.due = self.due
        self.tick = 0

    def advance(self) -> int:
        """Set the next beat; returns this one's number, from 1."""
        self.tick += 1
        self._shell.due = self.due = next_heartbeat(self.due, self._interval_us, self._shell.now)
        return self.tick


class Mesh:
    """The meshes of all joined topics of one router."""

    __slots__ = (
        "_backoffs",
        "_dials",
        "_parameters",
        "_prune_from",
        "_refuse_from",
        "_shell",
        "_spread",
        "_unsent",
        "topics",
    )

    def __init__(self, parameters: MeshParameters, shell: Shell) -> None:
        self._parameters = parameters
        self._shell = shell
        self._prune_from = parameters.prune_from
        self._refuse_from = parameters.refuse_from
        self._backoffs = Backoffs(parameters.max_backoffs, parameters.backoff_slack_us)
        self._spread = Spread(parameters.places_per_address, shell.peers)
        self._unsent: dict[PeerId, set[TopicId]] = {}
        self._dials = 0
        self.topics: dict[TopicId, PeerGroup] = {}

    def join(self, topic: TopicId, preferred: Iterable[PeerId], tick: int) -> None:
        """Build the mesh of a topic just joined: preferred peers first, then random ones, up to D."""
        self.topics[topic] = mesh = PeerGroup()
        for peer in preferred:
            if self.may_graft(topic, peer):
                self._graft(topic, mesh, peer)
        missing = self._parameters.degree - len(mesh)
        self._graft_random(topic, mesh, missing, missing, Purpose.JOIN, tick)

    def leave(self, topic: TopicId) -> None:
        """PRUNE all mesh peers of a topic and forget it."""
        for peer in self.topics.pop(topic):
            self.left(topic, peer)
            self._part(peer, topic, self._parameters.unsubscribe_backoff_ms, self._others(topic, peer, _LEAVING))

    def on_graft(self, sender: ConnectedPeer, topic: TopicId) -> None:
        mesh = self.topics.get(topic, _NO_PEERS)
        reason, prune = self.answer(sender, topic, mesh)
        if reason == TAKEN_IN or (reason == MESH_IS_FULL and self._makes_way(topic, mesh, sender.id)):
            mesh.add(sender.id)
            self.entered(topic, sender.id)
            return
        backoff_ms = self._parameters.prune_backoff_ms
        if prune == BARE_PRUNE:
            self._shell.outbox.prune(sender.id, Prune(topic))
        elif prune == BACKOFF_PRUNE:
            self._part(sender.id, topic, backoff_ms)
        elif prune == EXCHANGE_PRUNE:
            self._part(sender.id, topic, backoff_ms, self._others(topic, sender.id, _REFUSING))
        if reason != MEMBER:
            about = topic if reason == IN_BACKOFF else None
            self._shell.drop(sender.id, PartKind.GRAFT, 1, Reason(reason), about)

    def answer(self, sender: ConnectedPeer, topic: TopicId, mesh: PeerGroup) -> tuple[int, int]:
        """What a GRAFT gets."""
        return graft_answer(
            sender.native,
            topic in self.topics,
            self._parameters.unknown_graft is UnknownGraft.PRUNE,
            topic in sender.topics,
            sender.id in mesh,
            False,
            self.keeps_apart(topic, sender.id),
            False,
            is_full(len(mesh), self._refuse_from),
        )

    def keeps_apart(self, topic: TopicId, peer: PeerId) -> bool:
        """Whether a GRAFT of a peer comes too early."""
        return self._backoffs.holds(topic, peer, self._shell.now)

    def entered(self, topic: TopicId, peer: PeerId) -> None:
        """A peer is in the mesh of a topic now."""
        self._shell.actions.append(PeerGrafted(topic, peer))

    def left(self, topic: TopicId, peer: PeerId) -> None:
        """A peer is no longer in the mesh of a topic."""
        self._shell.actions.append(PeerPruned(topic, peer))

    def may_graft(self, topic: TopicId, peer: PeerId) -> bool:
        """Whether a peer that is no member may be grafted."""
        return not self._backoffs.forbids_graft(topic, peer, self._shell.now)

    def _makes_way(self, topic: TopicId, mesh: PeerGroup, peer: PeerId) -> bool:
        """Whether a member with a lent place has left it to a peer that has one of its own."""
        lent = self._spread.lent(self._shell.draw(Purpose.MAKE_WAY, topic, key_of(peer)), mesh)
        if not lent or not self._spread.has_place(peer, mesh):
            return False
        self._prune(topic, mesh, lent[0], self._others(topic, lent[0], _REFUSING))
        return True

    def on_prune(self, sender: ConnectedPeer, prune: Prune) -> None:
        self.remove(sender.id, prune.topic)
        if prune.topic not in self.topics:
            return
        self.obey_backoff(sender.id, prune)
        if self._parameters.dials_per_prune:
            self.dial(sender, prune)

    def obey_backoff(self, peer: PeerId, prune: Prune) -> None:
        """Keep apart from a peer for as long as its PRUNE says."""
        parameters = self._parameters
        if parameters.prune_backoff_ms:
            backoff = received_backoff(
                prune.backoff_s is not None,
                prune.backoff_s or 0,
                parameters.prune_backoff_ms * 1000,
                parameters.max_backoff_ms * 1000,
            )
            self._backoffs.start(prune.topic, peer, self._shell.now, backoff)

    def dial(self, sender: ConnectedPeer, prune: Prune) -> None:
        """Dial those whom a PRUNE names."""
        for known in prune.peers[: self._parameters.dials_per_prune]:
            if known.peer != self._shell.node:
                self._ask_to_dial(prune.topic, known.peer)

    def _ask_to_dial(self, topic: TopicId, peer: PeerId) -> None:
        if peer not in self._shell.connected and self._dials < MAX_DIALS:
            self._dials += 1
            self._shell.actions += [NamedPeerDialled(topic, peer), Dial(peer)]

    def remove(self, peer: PeerId, topic: TopicId) -> None:
        """A peer is no longer in the mesh of a topic, without telling it."""
        mesh = self.topics.get(topic)
        if mesh is not None and mesh.discard(peer):
            self.left(topic, peer)

    def remove_peer(self, peer: ConnectedPeer) -> None:
        for topic in sorted(peer.topics):
            self.remove(peer.id, topic)
        self._unsent.pop(peer.id, None)

    def graft(self, topic: TopicId, peer: PeerId) -> None:
        """Take one certain peer into the mesh of a joined topic, if it has room."""
        mesh = self.topics[topic]
        room = has_room_for_one(len(mesh), self._prune_from)
        if peer not in mesh and room and self.may_graft(topic, peer):
            self._graft(topic, mesh, peer)

    def upkeep(self, tick: int) -> None:
        """The stabilisation of meshsub, once per heartbeat and topic."""
        self._dials = 0
        if self._unsent:
            self.say_again(sorted(self._unsent))
        if len(self._backoffs) and tick % EXPIRE_EVERY == 0:
            self._backoffs.expire(self._shell.now)
        for topic in sorted(self.topics):
            self.tend(topic, self.topics[topic], tick)

    def tend(self, topic: TopicId, mesh: PeerGroup, tick: int) -> None:
        """GRAFT or PRUNE until the mesh has its degree."""
        parameters = self._parameters
        size = len(mesh)
        own = size - len(self._spread.lent(0, mesh))
        grafts, prunes = mesh_change(size, own, parameters.degree_low, parameters.degree, self._prune_from)
        if grafts:
            self._graft_random(topic, mesh, grafts, parameters.degree - size, Purpose.GRAFT, tick)
        if prunes:
            self._prune_random(topic, mesh, prunes, tick)

    def send_failed(self, peer: PeerId, rpc: Rpc) -> None:
        """Remember the topics whose GRAFT or PRUNE did not leave."""
        if rpc.control is None:
            return
        parts = (*rpc.control.graft, *rpc.control.prune)
        if parts:
            unsent = self._unsent.setdefault(peer, set())
            unsent.update(part.topic for part in parts if part.topic in self.topics or len(unsent) < MAX_UNSENT)

    def say_again(self, peers: Iterable[PeerId]) -> None:
        """GRAFT or PRUNE where that did not leave for these peers, as the mesh is now."""
        for peer in peers:
            for topic in sorted(self._unsent.pop(peer, ())):
                if peer in self.topics.get(topic, ()):
                    self._shell.outbox.graft(peer, topic)
                else:
                    self._say_prune(peer, topic, self._backoffs.remaining_us(topic, peer, self._shell.now))

    def peerings(self) -> Iterator[tuple[TopicId, PeerId, Peering]]:
        for topic in sorted(self.topics):
            for peer in self.topics[topic]:
                yield topic, peer, Peering.FULL_MESSAGE

    def backoff_ends(self) -> Iterator[tuple[TopicId, PeerId, Micros]]:
        """With whom this router keeps apart, and until when."""
        return self._backoffs.ends()

    def _part(self, peer: PeerId, topic: TopicId, backoff_ms: int, others: tuple[PeerInfo, ...] = ()) -> None:
        """Keep apart from a peer, with backoffs on, and tell it."""
        if self._parameters.prune_backoff_ms:
            self._backoffs.start(topic, peer, self._shell.now, backoff_ms * 1000)
        self._say_prune(peer, topic, backoff_ms * 1000, others)

    def _say_prune(self, peer: PeerId, topic: TopicId, backoff_us: Micros, others: tuple[PeerInfo, ...] = ()) -> None:
        """PRUNE, with the time and the others if both sides know about such."""
        timed = knows_backoff(self._shell.connected[peer].protocol) and backoff_us > 0
        prune = Prune(topic, seconds_to_name(backoff_us), others) if timed else Prune(topic)
        self._shell.outbox.prune(peer, prune)

    def _others(self, topic: TopicId, peer: PeerId, tick: int) -> tuple[PeerInfo, ...]:
        """Peer exchange: some others of the topic. The driver adds their signed addresses, if it has them."""
        count = self._parameters.exchange_peers
        if not count:
            return ()
        shell = self._shell
        candidates = self.worth_naming(topic, peer)
        state = shell.draw(Purpose.PEER_EXCHANGE, topic, tick & MASK, key_of(peer))
        return tuple(map(PeerInfo, sample(state, candidates, count)))

    def worth_naming(self, topic: TopicId, peer: PeerId) -> list[PeerId]:
        """Whom a PRUNE to a peer may name."""
        return [other for other in self._shell.peers.in_topic(topic).native.ordered if other != peer]

    def _graft(self, topic: TopicId, mesh: PeerGroup, peer: PeerId) -> None:
        if mesh.add(peer):
            self.entered(topic, peer)
            self._shell.outbox.graft(peer, topic)

    def _graft_random(
        self, topic: TopicId, mesh: PeerGroup, own: int, any_: int, purpose: Purpose, tick: int
    ) -> None:
        """GRAFT `own` peers with places of their own; with lent ones `any_`."""
        candidates = self.candidates(topic, mesh)
        state = self._shell.draw(purpose, topic, tick)
        for peer in self._spread.choose(state, candidates, own, any_, mesh):
            self._graft(topic, mesh, peer)

    def candidates(self, topic: TopicId, mesh: PeerGroup) -> list[PeerId]:
        """Who is no member and may be grafted, ascending."""
        shell = self._shell
        found = [peer for peer in shell.peers.in_topic(topic).native.ordered if peer not in mesh.members]
        if len(self._backoffs):
            now = shell.now
            found = [peer for peer in found if not self._backoffs.forbids_graft(topic, peer, now)]
        return found

    def _prune_random(self, topic: TopicId, mesh: PeerGroup, count: int, tick: int) -> None:
        shell = self._shell
        state = shell.draw(Purpose.PRUNE, topic, tick)
        lent = self._spread.lent(state, mesh)[:count]
        others = [peer for peer in mesh.ordered if peer not in lent] if lent else mesh.ordered
        for peer in (*lent, *sample(state, others, count - len(lent))):
            self._prune(topic, mesh, peer, self._others(topic, peer, tick))

    def _prune(self, topic: TopicId, mesh: PeerGroup, peer: PeerId, others: tuple[PeerInfo, ...]) -> None:
        mesh.discard(peer)
        self.left(topic, peer)
        self._part(peer, topic, self._parameters.prune_backoff_ms, others)
