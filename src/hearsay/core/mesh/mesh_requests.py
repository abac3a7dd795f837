"""Handling of received GRAFTs and PRUNEs. `rules/mesh_rules.py` and `rules/score_parts.py` have the decisions.

Rules (r1; v1.1; go):

* MESH-3: `rules/mesh_rules.py` has the answers to a GRAFT. If a mesh accepts all peers until its upkeep (r1), an
  attacker can send GRAFTs from many peer ids between two heartbeats. Upkeep then chooses mostly among these peers. So
  with `full_mesh` = `refuse`, a full mesh refuses GRAFTs (v1.1, go).
* MESH-6: With `accept_exchange` the router dials peers that a PRUNE of a joined topic names: at most `exchange_dials`
  of one PRUNE, or `exchange_peers` if `exchange_dials` is 0. Between two heartbeats it dials at most `MAX_DIALS` such
  peers (in go, this number bounds the dials that wait). Each of these dials is reported (`NamedPeerDialled`).
"""

from __future__ import annotations

from hearsay.core.language.actions import Dial, NamedPeerDialled, Reason
from hearsay.core.language.identifiers import PeerId, TopicId
from hearsay.core.language.rpc import PartKind, Prune
from hearsay.core.mesh.mesh import EMPTY_MESH, REFUSING, Mesh
from hearsay.core.mesh.parameters import (
    DirectGraft,
    OutboundWhenFull,
    UnknownGraft,
    UnsubscribedGraft,
    UnwelcomeGraft,
)
from hearsay.core.rules.mesh_rules import (
    ACCEPTED,
    BACKOFF_PRUNE,
    BARE_PRUNE,
    EXCHANGE_PRUNE,
    FROM_DIRECT,
    IN_BACKOFF,
    MEMBER,
    MESH_IS_FULL,
    NO_PRUNE,
    NOT_A_SUBSCRIBER,
    UNWELCOME,
    graft_answer,
    is_flood,
    is_full,
)
from hearsay.core.rules.randomness import Purpose, key_of, sample
from hearsay.core.rules.score_parts import ALWAYS, NEVER, QUOTA, enters_a_full_mesh
from hearsay.core.shell.peers import ConnectedPeer, PeerGroup

MAX_DIALS = 128
"""Maximum number of peers named by PRUNEs that are dialled between two heartbeats. One RPC may have many PRUNEs."""

_WHEN_FULL = {OutboundWhenFull.ALWAYS: ALWAYS, OutboundWhenFull.QUOTA: QUOTA, OutboundWhenFull.NEVER: NEVER}


class MeshRequests:
    """Reactions to GRAFT and PRUNE. Without parameters of 1.1 the rules are those of 1.0."""

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh
        self._parameters, self._shell, self._standing = mesh.parameters, mesh.shell, mesh.standing
        self._uses_11 = mesh.parameters.uses_11
        self._dials = 0
        """Number of dials of named peers since the last heartbeat."""
        self._welcome: bool | None = None
        self._refused: bool | None = None
        self._trusted: bool | None = None
        """Decisions that depend on the score of the RPC's sender. `_welcome`: the score is not negative. `_refused`:
        GRAFTs of the sender are refused because of the score. `_trusted`: the peers that the sender names are
        dialled.

        The first two are made before the first GRAFT of the RPC, the third before its first PRUNE, since these parts
        change the score (all implementations). None: not made yet."""

    def begin_heartbeat(self) -> None:
        self._dials = 0

    def control_handled(self) -> None:
        """Forget the decisions that were made for this RPC."""
        self._mesh.hides_peers = False
        self._welcome = self._refused = self._trusted = None

    def on_graft(self, sender: ConnectedPeer, topic: TopicId) -> None:
        mesh = self._mesh.topics.get(topic, EMPTY_MESH)
        member = sender.id in mesh
        reason, prune = self._answer(sender, topic, mesh)
        gets_place = reason == MESH_IS_FULL and not member and self._free_place(topic, mesh, sender.id)
        if reason == ACCEPTED or gets_place:
            self._shell.peers.subscribe(sender, topic)
            mesh.add(sender.id)
            self._mesh.entered(topic, sender.id)
            return
        backoff_ms = self._parameters.prune_backoff_ms
        if prune == BARE_PRUNE:
            self._shell.outbox.prune(sender.id, Prune(topic))
        elif prune == BACKOFF_PRUNE:
            self._mesh.send_prune(sender.id, topic, backoff_ms)
        elif prune == EXCHANGE_PRUNE:
            self._mesh.send_prune(sender.id, topic, backoff_ms, self._mesh.peers_to_name(topic, sender.id, REFUSING))
        if reason != MEMBER:
            about = topic if reason == IN_BACKOFF else None
            self._shell.drop(sender.id, PartKind.GRAFT, 1, Reason(reason), about)

    def on_prune(self, sender: ConnectedPeer, prune: Prune) -> None:
        mesh = self._mesh
        if self._trusted is None:
            self._trusted = self._standing.trusts_exchange_of(sender.id)
        members = mesh.topics.get(prune.topic)
        if members is not None and sender.id not in members and not mesh.has_unsubscribed(sender.id, prune.topic):
            self._standing.prune(sender.id, prune.topic)
        mesh.remove(sender.id, prune.topic)
        if members is not None or self._parameters.backoff_when_not_joined:
            mesh.obey_backoff(sender.id, prune)
        if members is not None and self._parameters.dials_per_prune:
            self._dial(sender, prune)

    def _answer(self, sender: ConnectedPeer, topic: TopicId, mesh: PeerGroup) -> tuple[int, int]:
        """Return two numbers: the `Reason` for dropping a GRAFT, or ACCEPTED or MEMBER; and the kind of PRUNE in
        answer.

        Penalise a GRAFT in backoff and, with `direct_graft` = `penalise`, the GRAFT of a direct peer. If a member
        gets a PRUNE, remove it from the mesh.
        """
        parameters = self._parameters
        standing = self._standing
        if self._welcome is None:
            self._welcome = standing.is_welcome(sender.id)
            taken_in = parameters.unwelcome_graft is UnwelcomeGraft.TAKEN_IN
            self._refused = not (standing.gets_published(sender.id) if taken_in else self._welcome)
        subscribed, member = topic in sender.topics, sender.id in mesh
        reason, prune = graft_answer(
            sender.native,
            topic in self._mesh.topics,
            parameters.unknown_graft is UnknownGraft.PRUNE,
            subscribed or parameters.unsubscribed_graft is not UnsubscribedGraft.PRUNE,
            member and not parameters.member_graft_is_judged,
            sender.id in standing.direct,
            self._mesh.backoffs.holds(topic, sender.id, self._shell.now + parameters.early_graft_ms * 1000),
            self._refused is True,
            is_full(len(mesh), parameters.refuse_from) and not self._is_exempt(sender, mesh),
        )
        ignores_strangers = parameters.unsubscribed_graft is UnsubscribedGraft.IGNORE
        if member and reason == ACCEPTED:
            reason = MEMBER
        elif reason in (ACCEPTED, MESH_IS_FULL) and not subscribed and ignores_strangers:
            reason = NOT_A_SUBSCRIBER
        if reason == IN_BACKOFF:
            self._penalise(sender.id, topic)
        elif reason == FROM_DIRECT and parameters.direct_graft is DirectGraft.PENALISE:
            standing.penalise(sender.id, parameters.early_graft_penalty)
        silent = {
            FROM_DIRECT: parameters.direct_graft is DirectGraft.IGNORE,
            NOT_A_SUBSCRIBER: ignores_strangers,
            UNWELCOME: parameters.unwelcome_graft is UnwelcomeGraft.TAKEN_IN,
        }
        if silent.get(reason, False):
            prune = NO_PRUNE
        if prune != NO_PRUNE and member:
            self._mesh.remove(sender.id, topic)
        return reason, self._without_names(sender.id, reason, prune)

    def _is_exempt(self, sender: ConnectedPeer, mesh: PeerGroup) -> bool:
        """Return whether a full mesh accepts a peer because this node dialled the peer (KEEP-6)."""
        if not self._uses_11:
            return False
        parameters, connected = self._parameters, self._shell.connected
        dialled = sum(connected[peer].outbound for peer in mesh.members)
        rule = _WHEN_FULL[parameters.outbound_when_full]
        return enters_a_full_mesh(sender.outbound, rule, dialled, parameters.degree_out)

    def _without_names(self, peer: PeerId, reason: int, prune: int) -> int:
        """Return `prune`, or another kind of PRUNE if the PRUNE must, or must not, name other peers.

        With `exchange_always` every PRUNE that has a backoff names other peers. Otherwise a PRUNE to a peer with a
        negative score names none. With parameters of 1.1, the PRUNEs in answer to an RPC with a misplaced GRAFT name
        none either, so that an attacker learns nothing from them (go). For this, a misplaced GRAFT sets
        `Mesh.hides_peers`, and removes the names from the PRUNEs that are in the outbox for the peer.
        """
        if self._parameters.exchange_always:
            return EXCHANGE_PRUNE if prune == BACKOFF_PRUNE else prune
        if self._uses_11 and reason not in (ACCEPTED, MEMBER, MESH_IS_FULL):
            self._mesh.hides_peers = True
            self._shell.outbox.clear_prune_peers(peer)
        return prune if self._welcome else min(prune, BACKOFF_PRUNE)

    def _penalise(self, peer: PeerId, topic: TopicId) -> None:
        """Count a GRAFT in backoff as misbehaviour (BACKOFF-7)."""
        parameters = self._parameters
        flood = is_flood(
            self._shell.now,
            self._mesh.backoffs.until(topic, peer),
            parameters.prune_backoff_ms * 1000,
            parameters.graft_flood_ms * 1000,
        )
        self._standing.penalise(peer, parameters.early_graft_penalty * (2.0 if flood else 1.0))

    def _free_place(self, topic: TopicId, mesh: PeerGroup, peer: PeerId) -> bool:
        """Prune a member with a lent place, if there is one and `peer` would have a place of its own (PLACES-2).

        Return whether a member was pruned.
        """
        spread = self._mesh.spread
        lent = spread.lent(self._shell.draw(Purpose.MAKE_WAY, topic, key_of(peer)), mesh)
        if not lent or not spread.has_place(peer, mesh):
            return False
        self._mesh.prune(topic, lent[0], self._mesh.peers_to_name(topic, lent[0], REFUSING))
        return True

    def _dial(self, sender: ConnectedPeer, prune: Prune) -> None:
        """Dial peers that a PRUNE names: the first ones (1.0), or random ones if the score of the sender allows it
        (1.1)."""
        count, shell = self._parameters.dials_per_prune, self._shell
        if not self._uses_11:
            named = [known.peer for known in prune.peers[:count] if known.peer != shell.node]
        elif self._trusted:
            state = shell.draw(Purpose.EXCHANGE_DIAL, prune.topic, key_of(sender.id), shell.now)
            named = sample(state, sorted({known.peer for known in prune.peers} - {shell.node}), count)
        else:
            return
        for peer in named:
            if peer not in shell.connected and self._dials < MAX_DIALS:
                self._dials += 1
                shell.actions += [NamedPeerDialled(prune.topic, peer), Dial(peer)]
