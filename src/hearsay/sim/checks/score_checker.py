"""The invariants of routers with scores (gossipsub 1.1); a part of the checker.

1. after a heartbeat no mesh has a member with a negative score, or a direct peer;
2. after a heartbeat a mesh of at least D_low peers has at least D_out peers that the node dialled, unless no other
   dialled peer may be grafted;
3. a peer with a negative score does not enter a mesh, unless it sent a GRAFT and the parameters allow that
   (`StandingPromise.accept_graft`); no PRUNE names it; a PRUNE to such a peer names no peers, unless the node leaves
   the topic (as in go-libp2p) or the parameters allow that (`StandingPromise.names_peers_to_all`);
4. a peer below the gossip threshold gets no IHAVE, and no answer to its IWANT;
5. a peer below the publish threshold gets no message by flood publishing, the fan-out, a top-up of the mesh or
   flooding;
6. a node handles only the subscriptions of an RPC from a peer below the graylist threshold; it drops all other parts,
   and sends no answer;
7. after a heartbeat, a router awaits a message only from a peer to which it sent an IWANT for the message when the
   wait began. The wait ends when the answer is due, or earlier when the message arrives; some routers end it only for
   a copy from the asked peer. A router that tracks one message of each IWANT awaits at most one message for each
   IWANT. The number of waits is bounded.

A peer below the graylist threshold may still get subscriptions, a PRUNE that removes it from the mesh, and, until the
next heartbeat removes it, all messages that members of the mesh get.

A peer has a score before an event and a score after it; the higher one counts. Direct peers are exempt from 3 to 6. A
peer that leaves a mesh in an event is exempt in this event, because a heartbeat uses the scores at its beginning.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from hearsay.core.language.actions import Action, PartDropped, PeerGrafted, PeerPruned, Send, Via
from hearsay.core.language.events import Event, Leave, RpcReceived
from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import IWant
from hearsay.core.shell.guarantees import AskingPromise, StandingPromise
from hearsay.core.shell.router import Router
from hearsay.sim.reference.nodes import SimNode

_BEYOND_THE_MESH = (Via.FLOOD_PUBLISH, Via.FANOUT, Via.TOP_UP, Via.FLOOD)


_SentIWants: TypeAlias = defaultdict[tuple[Any, Micros], list[IWant]]
"""The IWANTs that one node sent and whose answers may not be due yet, by peer and time."""


class ScoreChecker:
    """A part of the checker: it checks the effects of the scores that nodes give their peers."""

    def __init__(self, problem: Callable[[Micros, SimNode, str], None]) -> None:
        self._problem = problem
        self._before: dict[int, dict[Any, float]] = {}
        """For each node, the scores of its peers after its last event."""
        self._asked: dict[int, _SentIWants] = {}

    def node_started(self, node: SimNode) -> None:
        self._before[node.id] = {}
        self._asked[node.id] = defaultdict(list)

    def accepts_from(self, node: SimNode, promise: StandingPromise | None, peer: Any) -> bool:
        """Return whether a node will accept all parts of a peer's RPC in its next event, not only subscriptions."""
        if promise is None or peer in promise.direct:
            return True
        return self._before[node.id].get(peer, 0.0) >= promise.graylist

    def handled(
        self, node: SimNode, promise: StandingPromise, event: Event, actions: list[Action], now: Micros
    ) -> None:
        before, after = self._before[node.id], _scores(node)
        self._before[node.id] = after
        pruned = {action.peer for action in actions if isinstance(action, PeerPruned)}

        def best(peer: Any) -> float:
            """Return the higher of a peer's scores before and after the event; 0 if the peer is exempt."""
            exempt = peer in promise.direct or peer in pruned
            return 0.0 if exempt else max(before.get(peer, 0.0), after.get(peer, 0.0))

        ignored = event.peer if isinstance(event, RpcReceived) and best(event.peer) < promise.graylist else None
        for action in actions:
            unsubscribed = isinstance(action, PeerPruned) and action.peer == ignored
            if ignored is not None and not (unsubscribed or isinstance(action, PartDropped)):
                self._problem(now, node, f"{type(action).__name__} for an RPC of {ignored}, which is graylisted")
            if isinstance(action, PeerGrafted) and best(action.peer) < _required_score(promise, event, action):
                self._problem(now, node, f"accepts {action.peer}, whose score is {best(action.peer)}")
            elif isinstance(action, Send):
                self._check_sent(node, promise, event, action, best, now)

    def heartbeat(
        self, node: SimNode, promise: StandingPromise, may_graft: Callable[[Any, Any], bool], now: Micros
    ) -> None:
        """Check the meshes and the awaited answers of a node after a heartbeat.

        `may_graft` returns whether the backoffs in a topic allow a GRAFT to a peer.
        """
        router = node.router
        assert router is not None
        scores = self._before[node.id]
        for problem in _wrong_waits(self._asked[node.id], router, promise.asking, now):
            self._problem(now, node, problem)
        for topic in sorted(router.joined):
            mesh: list[Any] = router.strategy.mesh_peers(topic)
            for peer in mesh:
                if scores.get(peer, 0.0) < 0 or peer in promise.direct:
                    why = "is direct" if peer in promise.direct else f"has the score {scores[peer]}"
                    self._problem(now, node, f"mesh of {topic!r} holds {peer}, which {why}")
            dialled = sum(router.connected[peer].outbound for peer in mesh)
            if len(mesh) >= promise.degree_low and dialled < promise.degree_out:
                others = [peer for peer in router.peers.in_topic(topic).native.ordered if peer not in mesh]
                fit = [peer for peer in others if scores.get(peer, 0.0) >= 0 and peer not in promise.direct]
                left = [peer for peer in fit if router.connected[peer].outbound and may_graft(topic, peer)]
                if left:
                    self._problem(now, node, f"mesh of {topic!r} has {dialled} dialled peers, and could have {left}")

    def _check_sent(
        self,
        node: SimNode,
        promise: StandingPromise,
        event: Event,
        action: Send,
        best: Callable[[Any], float],
        now: Micros,
    ) -> None:
        """Check an RPC that a node sends because of an event, and record its IWANTs.

        `best` returns the score that counts for a peer.
        """
        peer, score = action.peer, best(action.peer)
        whose = f"{peer}, whose score {score} is below"
        control = action.rpc.control
        is_gossip = Via.IWANT in action.vias or (control is not None and control.ihave)
        if score < promise.gossip and is_gossip:
            self._problem(now, node, f"gossip with {whose} {promise.gossip}")
        if score < promise.publish and any(via in _BEYOND_THE_MESH for via in action.vias):
            self._problem(now, node, f"message beyond the mesh to {whose} {promise.publish}")
        if control is None:
            return
        self._asked[node.id][peer, now].extend(control.iwant)
        for prune in control.prune:
            if prune.peers and score < 0 and not promise.names_peers_to_all and not isinstance(event, Leave):
                self._problem(now, node, f"PRUNE with names to {whose} 0")
            for named in prune.peers:
                if best(named.peer) < 0:
                    self._problem(now, node, f"PRUNE names {named.peer}, whose score is {best(named.peer)}")


def _wrong_waits(sent: _SentIWants, router: Router, promise: AskingPromise, now: Micros) -> Iterator[str]:
    """Yield a problem for each answer to IWANT that the node's router must not await after a heartbeat.

    Also yield a problem if it awaits too many answers. Remove IWANTs whose answers are overdue from `sent`.
    """
    of_peer: Counter[Any] = Counter()
    of_iwant: Counter[tuple[Any, Micros]] = Counter()
    for (peer, message_id), until in promise.waited_for.items():
        asked_at = (peer, until - promise.answer_us)
        parts = sent.get(asked_at, [])
        of_peer[peer] += 1
        of_iwant[asked_at] += 1
        if until < now:
            yield f"awaits message {message_id} of {peer}, whose time ended at {until} us"
        if message_id in router.known and not promise.only_asked_peer_ends_wait:
            yield f"awaits message {message_id} of {peer}, which has arrived"
        if not any(message_id in part.ids for part in parts):
            yield f"awaits message {message_id} of {peer}, which was not asked for it then"
        if promise.one_wait_per_iwant and of_iwant[asked_at] > len(parts):
            yield f"awaits {of_iwant[asked_at]} messages of {peer} after {len(parts)} IWANT"
    if max(of_peer.values(), default=0) > promise.max_waits_for_peer:
        yield f"awaits {max(of_peer.values())} messages of one peer, above {promise.max_waits_for_peer}"
    if of_peer.total() > promise.max_waits:
        yield f"awaits {of_peer.total()} messages, above {promise.max_waits}"
    for key in [key for key in sent if key[1] + promise.answer_us < now]:
        del sent[key]


def ignores_peer(node: SimNode, promise: StandingPromise, peer: Any) -> bool:
    """Return whether a peer's score at a node is now below the graylist threshold.

    Then the node accepts only subscriptions from the peer, unless it is a direct peer.
    """
    return _scores(node).get(peer, 0.0) < promise.graylist


def _required_score(promise: StandingPromise, event: Event, entered: PeerGrafted) -> float:
    """Return the lowest score with which a peer may enter a mesh.

    It is `StandingPromise.accept_graft` if the peer enters by a GRAFT that it sent, otherwise 0.
    """
    control = event.rpc.control if isinstance(event, RpcReceived) and event.peer == entered.peer else None
    by_itself = control is not None and any(graft.topic == entered.topic for graft in control.graft)
    return promise.accept_graft if by_itself else 0.0


def _scores(node: SimNode) -> dict[Any, float]:
    assert node.router is not None
    return {peer: parts.score for peer, parts in node.router.strategy.scores()}
