"""The mesh of gossipsub 1.1: scores say who enters, stays and is named; who was dialled has a share of the places.

What is decided stands in `rules/graft_answers.py`, `rules/scores/mesh_members.py` and `rules/backoff_times.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nextafter

from hearsay.core.language.identifiers import PeerId, TopicId
from hearsay.core.language.rpc import Prune
from hearsay.core.mesh.graft_bounds import LastingBackoffs
from hearsay.core.mesh.mesh import Mesh
from hearsay.core.mesh.parameters import (
    DirectGraft,
    GraftChoice,
    JudgingParameters,
    Median,
    OpportunityChoice,
    OutboundRepair,
    OutboundWhenFull,
    UnknownGraft,
    UnsubscribedGraft,
    UnwelcomeGraft,
)
from hearsay.core.mesh.standing import Standing
from hearsay.core.rules.mesh_rules import (
    BACKOFF_PRUNE,
    EXCHANGE_PRUNE,
    FROM_DIRECT,
    IN_BACKOFF,
    MEMBER,
    MESH_IS_FULL,
    NO_PRUNE,
    NOT_A_SUBSCRIBER,
    TAKEN_IN,
    UNWELCOME,
    graft_answer,
    is_flood,
    is_full,
    is_too_large,
    is_too_small,
)
from hearsay.core.rules.mixing import extend
from hearsay.core.rules.scores.mesh_members import (
    ALWAYS,
    LOWER,
    MEAN,
    NEVER,
    QUOTA,
    UPPER,
    dialled_to_graft,
    dialled_to_keep,
    enters_a_full_mesh,
    median,
    opportunity_is_due,
)
from hearsay.core.rules.scores.parts import mesh_is_poor
from hearsay.core.shell.peers import ConnectedPeer, PeerGroup
from hearsay.core.shell.randomness import Purpose, key_of, sample
from hearsay.core.shell.strategy import Shell

_WHEN_FULL = {OutboundWhenFull.ALWAYS: ALWAYS, OutboundWhenFull.QUOTA: QUOTA, OutboundWhenFull.NEVER: NEVER}
_MEDIANS = {Median.UPPER: UPPER, Median.LOWER: LOWER, Median.MEAN: MEAN}


class JudgingMesh(Mesh):
    __slots__ = ("_believed", "_refused", "_standing", "_unsubscribed", "_welcome", "_when_full", "names_nobody")

    _parameters: JudgingParameters

    def __init__(self, parameters: JudgingParameters, shell: Shell, standing: Standing) -> None:
        super().__init__(parameters, shell)
        if parameters.backoff_until_forgotten:
            after_slack = parameters.backoff_slack_us + 1
            self._backoffs = LastingBackoffs(parameters.max_backoffs, after_slack)
        self._standing = standing
        self._when_full = _WHEN_FULL[parameters.outbound_when_full]
        self._unsubscribed: dict[PeerId, set[TopicId]] = {}
        """Topics whose meshes connected peers left by UNSUBSCRIBE, and for which they have not sent PRUNE since."""
        self.names_nobody = False
        """After a GRAFT out of place, until its RPC is over (go): against spam, and so that nothing leaks. Nor do the
        answers to GRAFTs before it in the RPC name anybody."""
        self._welcome: bool | None = None
        self._refused: bool | None = None
        self._believed: bool | None = None
        """What the sender's score allows, read once for all GRAFTs and once for all PRUNEs of an RPC, before these
        change it (all implementations)."""

    def rpc_is_over(self) -> None:
        self.names_nobody = False
        self._welcome = self._refused = self._believed = None

    def entered(self, topic: TopicId, peer: PeerId) -> None:
        super().entered(topic, peer)
        self._shell.peers.subscribe(self._shell.connected[peer], topic)
        self._unsubscribed.get(peer, set()).discard(topic)
        self._standing.graft(peer, topic)

    def left(self, topic: TopicId, peer: PeerId) -> None:
        super().left(topic, peer)
        self._standing.prune(peer, topic)

    def may_graft(self, topic: TopicId, peer: PeerId) -> bool:
        return self._standing.may_be_in_mesh(peer) and super().may_graft(topic, peer)

    def candidates(self, topic: TopicId, mesh: PeerGroup) -> list[PeerId]:
        return [peer for peer in super().candidates(topic, mesh) if self._standing.may_be_in_mesh(peer)]

    def worth_naming(self, topic: TopicId, peer: PeerId) -> list[PeerId]:
        if self.names_nobody:
            return []
        return [other for other in super().worth_naming(topic, peer) if self._standing.is_welcome(other)]

    def answer(self, sender: ConnectedPeer, topic: TopicId, mesh: PeerGroup) -> tuple[int, int]:
        standing, parameters = self._standing, self._parameters
        if self._welcome is None:
            self._welcome = standing.is_welcome(sender.id)
            taken_in = parameters.unwelcome_graft is UnwelcomeGraft.TAKEN_IN
            self._refused = not (standing.gets_published(sender.id) if taken_in else self._welcome)
        dialled = len(self._dialled(mesh.ordered))
        subscribed, member = topic in sender.topics, sender.id in mesh
        exempt = enters_a_full_mesh(sender.outbound, self._when_full, dialled, parameters.degree_out)
        reason, prune = graft_answer(
            sender.native,
            topic in self.topics,
            parameters.unknown_graft is UnknownGraft.PRUNE,
            subscribed or parameters.unsubscribed_graft is not UnsubscribedGraft.PRUNE,
            member and not parameters.member_graft_is_judged,
            sender.id in standing.direct,
            self.keeps_apart(topic, sender.id),
            self._refused is True,
            is_full(len(mesh), self._refuse_from) and not exempt,
        )
        if member and reason == TAKEN_IN:
            reason = MEMBER
        elif reason in (TAKEN_IN, MESH_IS_FULL) and not subscribed and self._ignores_strangers:
            reason = NOT_A_SUBSCRIBER
        if reason == IN_BACKOFF:
            self._penalise(sender.id, topic)
        elif reason == FROM_DIRECT and parameters.direct_graft is DirectGraft.PENALISE:
            standing.penalise(sender.id, parameters.early_graft_penalty)
        if self._says_nothing(reason):
            prune = NO_PRUNE
        if prune != NO_PRUNE and member:
            self.remove(sender.id, topic)
        return reason, self._without_names(sender.id, reason, prune)

    def _without_names(self, peer: PeerId, reason: int, prune: int) -> int:
        """The PRUNE for a GRAFT. After a GRAFT out of place no PRUNE in answer to its RPC names others."""
        if self._parameters.exchange_always:
            return EXCHANGE_PRUNE if prune == BACKOFF_PRUNE else prune
        if reason not in (TAKEN_IN, MEMBER, MESH_IS_FULL):
            self.names_nobody = True
            self._shell.outbox.name_nobody(peer)
        return prune if self._welcome else min(prune, BACKOFF_PRUNE)

    def _says_nothing(self, reason: int) -> bool:
        """Whether a GRAFT that is dropped for this gets no PRUNE."""
        if reason == FROM_DIRECT:
            return self._parameters.direct_graft is DirectGraft.IGNORE
        if reason == NOT_A_SUBSCRIBER:
            return self._ignores_strangers
        return reason == UNWELCOME and self._parameters.unwelcome_graft is UnwelcomeGraft.TAKEN_IN

    @property
    def _ignores_strangers(self) -> bool:
        return self._parameters.unsubscribed_graft is UnsubscribedGraft.IGNORE

    def keeps_apart(self, topic: TopicId, peer: PeerId) -> bool:
        """BACKOFF-8."""
        now = self._shell.now + self._parameters.early_graft_ms * 1000
        return self._backoffs.holds(topic, peer, now)

    def _penalise(self, peer: PeerId, topic: TopicId) -> None:
        """BACKOFF-7."""
        parameters = self._parameters
        flood = is_flood(
            self._shell.now,
            self._backoffs.until(topic, peer),
            parameters.prune_backoff_ms * 1000,
            parameters.graft_flood_ms * 1000,
        )
        self._standing.penalise(peer, parameters.early_graft_penalty * (2.0 if flood else 1.0))

    def on_prune(self, sender: ConnectedPeer, prune: Prune) -> None:
        if self._believed is None:
            self._believed = self._standing.is_believed(sender.id)
        mesh = self.topics.get(prune.topic)
        if mesh is not None and sender.id not in mesh and not self._has_unsubscribed(sender.id, prune.topic):
            self._standing.prune(sender.id, prune.topic)
        if mesh is None and self._parameters.backoff_when_not_joined:
            self.obey_backoff(sender.id, prune)
        super().on_prune(sender, prune)

    def peer_unsubscribed(self, peer: PeerId, topic: TopicId) -> None:
        parameters = self._parameters
        if parameters.backoff_on_unsubscribe and peer in self.topics.get(topic, ()):
            self._backoffs.start(topic, peer, self._shell.now, parameters.prune_backoff_ms * 1000)
        if peer in self.topics.get(topic, ()):
            self._unsubscribed.setdefault(peer, set()).add(topic)
        self.remove(peer, topic)

    def _has_unsubscribed(self, peer: PeerId, topic: TopicId) -> bool:
        """Whether a PRUNE belongs to an UNSUBSCRIBE by which a member left, so that it has been judged. It does so
        once."""
        topics = self._unsubscribed.get(peer, set())
        belongs = topic in topics
        topics.discard(topic)
        return belongs

    def remove_peer(self, peer: ConnectedPeer) -> None:
        super().remove_peer(peer)
        self._unsubscribed.pop(peer.id, None)

    def dial(self, sender: ConnectedPeer, prune: Prune) -> None:
        """Some of those whom a peer names that is believed, drawn among all."""
        if not self._believed:
            return
        shell = self._shell
        named = sorted({each.peer for each in prune.peers} - {shell.node})
        state = shell.draw(Purpose.EXCHANGE_DIAL, prune.topic, key_of(sender.id), shell.now)
        for peer in sample(state, named, self._parameters.dials_per_prune):
            self._ask_to_dial(prune.topic, peer)

    def tend(self, topic: TopicId, mesh: PeerGroup, tick: int) -> None:
        parameters = self._parameters
        for peer in mesh.ordered:
            if not self._standing.is_welcome(peer):
                self._prune(topic, mesh, peer, self._others(topic, peer, tick) if parameters.exchange_always else ())
        size = len(mesh)
        own = size - len(self._spread.lent(0, mesh))
        if is_too_small(own, parameters.degree_low):
            self._fill(topic, mesh, parameters.degree - own, parameters.degree - size, tick)
        elif is_too_large(size, self._prune_from) and size > parameters.degree:
            self._cut(topic, mesh, tick)
        self._graft_dialled(topic, mesh, tick)
        if opportunity_is_due(tick, parameters.opportunistic_graft_ticks, len(mesh)):
            self._graft_better(topic, mesh, tick)

    def prune_everywhere(self, peer: PeerId) -> None:
        """A peer is direct from now on, and in no mesh."""
        for topic in sorted(self.topics):
            if peer in self.topics[topic]:
                self._prune(topic, self.topics[topic], peer, ())

    def fill_up(self, topic: TopicId, peer: PeerId) -> None:
        """A peer joins the topic: it is grafted at once if the mesh has too few (rust, js)."""
        mesh = self.topics.get(topic)
        if mesh is None or not is_too_small(len(mesh), self._parameters.degree_low):
            return
        if peer not in mesh and self.may_graft(topic, peer):
            self._graft(topic, mesh, peer)

    def _fill(self, topic: TopicId, mesh: PeerGroup, own: int, any_: int, tick: int) -> None:
        """GRAFT `own` peers with places of their own; with lent ones `any_`."""
        candidates = self.candidates(topic, mesh)
        state = self._shell.draw(Purpose.GRAFT, topic, tick)
        if self._parameters.graft_choice is GraftChoice.BEST:
            chosen = self._best_first(self._shuffled(state, candidates))[:any_]
        else:
            chosen = self._spread.choose(state, candidates, own, any_, mesh)
        for peer in chosen:
            self._graft(topic, mesh, peer)

    def _cut(self, topic: TopicId, mesh: PeerGroup, tick: int) -> None:
        """KEEP-2, KEEP-3."""
        parameters = self._parameters
        state = self._shell.draw(Purpose.KEPT, topic, tick)
        best = self._best_first(self._shuffled(state, mesh.ordered))[: parameters.degree_score]
        others = self._shuffled(extend(state, 1), [peer for peer in mesh.ordered if peer not in best])
        lent = self._spread.lent(state, mesh)
        order = sorted([*best, *others], key=lambda peer: peer in lent)
        kept, gone = order[: parameters.degree], order[parameters.degree :]
        dialled = self._dialled(gone)
        to_degree = parameters.outbound_repair is OutboundRepair.TO_DEGREE
        up_to = parameters.degree if to_degree else parameters.degree_out
        saved = dialled[: dialled_to_keep(len(self._dialled(kept)), len(dialled), parameters.degree_out, up_to)]
        for _ in saved:
            kept.remove(next(peer for peer in reversed(kept) if not self._shell.connected[peer].outbound))
        staying = {*kept, *saved}
        for peer in mesh.ordered:
            if peer not in staying:
                self._prune(topic, mesh, peer, self._others(topic, peer, tick))

    def _graft_dialled(self, topic: TopicId, mesh: PeerGroup, tick: int) -> None:
        """KEEP-4."""
        parameters = self._parameters
        dialled = len(self._dialled(mesh.ordered))
        count = dialled_to_graft(len(mesh), dialled, parameters.degree_low, parameters.degree_out)
        if count:
            state = self._shell.draw(Purpose.OUTBOUND, topic, tick)
            for peer in sample(state, self._dialled(self.candidates(topic, mesh)), count):
                self._graft(topic, mesh, peer)

    def _graft_better(self, topic: TopicId, mesh: PeerGroup, tick: int) -> None:
        """KEEP-5."""
        parameters, standing = self._parameters, self._standing
        scores = sorted(map(standing.score, mesh.ordered))
        size = len(scores)
        middle = median(scores[(size - 1) // 2], scores[size // 2], _MEDIANS[parameters.median])
        if not mesh_is_poor(middle, standing.opportunistic_graft):
            return
        rule, count = parameters.opportunity_choice, parameters.opportunistic_graft_peers
        least = middle if rule is OpportunityChoice.FIRST_FROM else nextafter(middle, inf)
        better = [peer for peer in self.candidates(topic, mesh) if standing.score(peer) >= least]
        if rule is OpportunityChoice.DRAWN_ABOVE:
            better = sample(self._shell.draw(Purpose.OPPORTUNITY, topic, tick), better, count)
        for peer in better[:count]:
            self._graft(topic, mesh, peer)

    def _dialled(self, peers: Sequence[PeerId]) -> list[PeerId]:
        connected = self._shell.connected
        return [peer for peer in peers if connected[peer].outbound]

    def _best_first(self, peers: list[PeerId]) -> list[PeerId]:
        return sorted(peers, key=self._standing.score, reverse=True)

    def _shuffled(self, state: int, peers: Sequence[PeerId]) -> list[PeerId]:
        return sorted(peers, key=lambda peer: (extend(state, key_of(peer)), peer))
