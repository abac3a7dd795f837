"""Upkeep of the mesh in the heartbeat (the decisions: `rules/mesh_rules.py`, `rules/score_parts.py`).

* MESH-2: Upkeep runs once per heartbeat and topic. SIZE-1 and SIZE-2 state how many peers it GRAFTs or PRUNEs. The
  peers are random.

Theory: since D_low <= D <= D_high, upkeep of a topic either GRAFTs or PRUNEs, never both. So it does not matter
whether the members are counted once (simsub's actor) or before each of the two steps (r1).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nextafter

from hearsay.core.language.identifiers import PeerId, TopicId
from hearsay.core.mesh.mesh import EXPIRE_EVERY, Mesh
from hearsay.core.mesh.parameters import (
    GossipsubParameters,
    GraftChoice,
    Median,
    OpportunityChoice,
    OutboundRepair,
)
from hearsay.core.mesh.standing import Standing
from hearsay.core.rules.mesh_rules import is_too_large, is_too_small, mesh_change
from hearsay.core.rules.mixing import extend
from hearsay.core.rules.score_parts import (
    LOWER,
    MEAN,
    UPPER,
    dialled_to_graft,
    dialled_to_keep,
    median,
    mesh_is_poor,
    opportunity_is_due,
)
from hearsay.core.shell.peers import PeerGroup
from hearsay.core.shell.randomness import Purpose, sample, shuffled
from hearsay.core.shell.strategy import Shell

_MEDIANS = {Median.UPPER: UPPER, Median.LOWER: LOWER, Median.MEAN: MEAN}


class MeshUpkeep:
    """GRAFTs and PRUNEs of the heartbeat. Without parameters of 1.1 the rules are those of 1.0."""

    def __init__(
        self,
        parameters: GossipsubParameters,
        shell: Shell,
        mesh: Mesh,
        standing: Standing,
    ) -> None:
        self._parameters = parameters
        self._uses_11 = parameters.uses_11
        self._shell = shell
        self._mesh = mesh
        self._standing = standing

    def beat(self, tick: int) -> None:
        mesh = self._mesh
        mesh.say_again()
        if len(mesh.backoffs) and tick % EXPIRE_EVERY == 0:
            mesh.backoffs.expire(self._shell.now)
        for topic in sorted(mesh.topics):
            if not self._uses_11:
                self._tend(topic, mesh.topics[topic], tick)
            else:
                self._tend_by_scores(topic, mesh.topics[topic], tick)

    def fill_up(self, topic: TopicId, peer: PeerId) -> None:
        """GRAFT a peer at once when it joins the topic, if the mesh has too few peers (rust, js)."""
        mesh = self._mesh.topics.get(topic)
        if mesh is None or not is_too_small(len(mesh), self._parameters.degree_low):
            return
        if peer not in mesh and self._mesh.may_graft(topic, peer):
            self._mesh.add(topic, peer)

    def _tend(self, topic: TopicId, mesh: PeerGroup, tick: int) -> None:
        """GRAFT or PRUNE random peers until the mesh has its degree."""
        parameters = self._parameters
        size = len(mesh)
        own = size - len(self._mesh.spread.lent(0, mesh))
        grafts, prunes = mesh_change(size, own, parameters.degree_low, parameters.degree, parameters.prune_from)
        if grafts:
            self._mesh.graft_random(topic, grafts, parameters.degree - size, Purpose.GRAFT, tick)
        if prunes:
            self._prune_random(topic, mesh, prunes, tick)

    def _prune_random(self, topic: TopicId, mesh: PeerGroup, count: int, tick: int) -> None:
        state = self._shell.draw(Purpose.PRUNE, topic, tick)
        lent = self._mesh.spread.lent(state, mesh)[:count]
        others = [peer for peer in mesh.ordered if peer not in lent] if lent else mesh.ordered
        for peer in (*lent, *sample(state, others, count - len(lent))):
            self._mesh.prune(topic, peer, self._mesh.others(topic, peer, tick))

    def _tend_by_scores(self, topic: TopicId, mesh: PeerGroup, tick: int) -> None:
        """Keep the best peers and those that were dialled (KEEP-1 to KEEP-5)."""
        parameters = self._parameters
        for peer in mesh.ordered:
            if not self._standing.is_welcome(peer):
                others = self._mesh.others(topic, peer, tick) if parameters.exchange_always else ()
                self._mesh.prune(topic, peer, others)
        size = len(mesh)
        own = size - len(self._mesh.spread.lent(0, mesh))
        if is_too_small(own, parameters.degree_low):
            self._fill(topic, parameters.degree - own, parameters.degree - size, tick)
        elif is_too_large(size, parameters.prune_from) and size > parameters.degree:
            self._cut(topic, mesh, tick)
        self._graft_dialled(topic, mesh, tick)
        if opportunity_is_due(tick, parameters.opportunistic_graft_ticks, len(mesh)):
            self._graft_better(topic, mesh, tick)

    def _fill(self, topic: TopicId, own: int, total: int, tick: int) -> None:
        """GRAFT up to `own` peers with places of their own, then others with lent places, up to `total`."""
        if self._parameters.graft_choice is GraftChoice.RANDOM:
            self._mesh.graft_random(topic, own, total, Purpose.GRAFT, tick)
            return
        state = self._shell.draw(Purpose.GRAFT, topic, tick)
        for peer in self._best_first(shuffled(state, self._mesh.candidates(topic)))[:total]:
            self._mesh.add(topic, peer)

    def _cut(self, topic: TopicId, mesh: PeerGroup, tick: int) -> None:
        """PRUNE down to D (KEEP-2, KEEP-3)."""
        parameters = self._parameters
        state = self._shell.draw(Purpose.KEPT, topic, tick)
        best = self._best_first(shuffled(state, mesh.ordered))[: parameters.degree_score]
        others = shuffled(extend(state, 1), [peer for peer in mesh.ordered if peer not in best])
        lent = self._mesh.spread.lent(state, mesh)
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
                self._mesh.prune(topic, peer, self._mesh.others(topic, peer, tick))

    def _graft_dialled(self, topic: TopicId, mesh: PeerGroup, tick: int) -> None:
        """GRAFT dialled peers up to D_out (KEEP-4)."""
        parameters = self._parameters
        dialled = len(self._dialled(mesh.ordered))
        count = dialled_to_graft(len(mesh), dialled, parameters.degree_low, parameters.degree_out)
        if count:
            state = self._shell.draw(Purpose.OUTBOUND, topic, tick)
            for peer in sample(state, self._dialled(self._mesh.candidates(topic)), count):
                self._mesh.add(topic, peer)

    def _graft_better(self, topic: TopicId, mesh: PeerGroup, tick: int) -> None:
        """GRAFT a few peers with better scores than the median (KEEP-5)."""
        parameters = self._parameters
        standing = self._standing
        scores = sorted(map(standing.score, mesh.ordered))
        size = len(scores)
        middle = median(scores[(size - 1) // 2], scores[size // 2], _MEDIANS[parameters.median])
        if not mesh_is_poor(middle, standing.thresholds.opportunistic_graft):
            return
        rule, count = parameters.opportunity_choice, parameters.opportunistic_graft_peers
        lowest = middle if rule is OpportunityChoice.FIRST_FROM else nextafter(middle, inf)
        better = [peer for peer in self._mesh.candidates(topic) if standing.score(peer) >= lowest]
        if rule is OpportunityChoice.DRAWN_ABOVE:
            better = sample(self._shell.draw(Purpose.OPPORTUNITY, topic, tick), better, count)
        for peer in better[:count]:
            self._mesh.add(topic, peer)

    def _dialled(self, peers: Sequence[PeerId]) -> list[PeerId]:
        connected = self._shell.connected
        return [peer for peer in peers if connected[peer].outbound]

    def _best_first(self, peers: list[PeerId]) -> list[PeerId]:
        return sorted(peers, key=self._standing.score, reverse=True)
