"""What must hold of routers that keep scores (gossipsub 1.1); a part of the checker.

1. when a heartbeat is over nobody in a mesh has a negative score, and no direct peer is in one;
2. a mesh with D_low has D_out dialled peers, or nobody is left who could be grafted for that;
3. nobody with a negative score gets into a mesh, or is named by a PRUNE; a PRUNE to such a peer names nobody, but
   when its topic is left (go);
4. no IHAVE goes to, and no IWANT is answered for, a peer below the gossip threshold;
5. none of one's own messages goes beyond the mesh to a peer below the publish threshold, and none at all to such a
   peer that only floods;
6. an RPC of a peer below the graylist threshold changes the topics that the peer is in, and nothing else: what it
   says with it is dropped, and nothing is sent for it;
7. what is waited for after an IWANT is bounded (`asked_book.py`).

What may go to a graylisted peer: subscriptions, the PRUNE that parts from it, and what goes to a member of a mesh
until the next heartbeat prunes it.

Scores are looked at before and after an event; the better one counts. Who left a mesh in it is exempt: a heartbeat
keeps to the scores that it began with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hearsay.core.language.actions import Action, PartDropped, PeerGrafted, PeerPruned, Send, Via
from hearsay.core.language.events import Event, Leave, RpcReceived
from hearsay.core.language.identifiers import Micros
from hearsay.core.shell.promises import StandingPromise
from hearsay.core.shell.router import Router
from hearsay.sim.checks.asked_book import AskedBook
from hearsay.sim.reference.nodes import SimNode

_BEYOND_THE_MESH = (Via.FLOOD_PUBLISH, Via.FANOUT, Via.TOP_UP, Via.FLOOD)


class JudgementChecker:
    def __init__(self, problem: Callable[[Micros, SimNode, str], None]) -> None:
        self._problem = problem
        self._before: dict[int, dict[Any, float]] = {}
        """The scores of each node's peers when its last event was over."""
        self._asked: dict[int, AskedBook] = {}

    def node_started(self, node: SimNode) -> None:
        self._before[node.id] = {}
        self._asked[node.id] = AskedBook()

    def hears(self, node: SimNode, promise: StandingPromise | None, peer: Any) -> bool:
        """Whether a node looks at all that a peer says in the event that comes next."""
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
            """As far as it binds the router."""
            exempt = peer in promise.direct or peer in pruned
            return 0.0 if exempt else max(before.get(peer, 0.0), after.get(peer, 0.0))

        if isinstance(event, RpcReceived) and best(event.peer) < promise.graylist:
            self._not_heard(node, event.peer, actions, now)
        for action in actions:
            if isinstance(action, PeerGrafted) and best(action.peer) < _least(promise, event, action):
                self._problem(now, node, f"takes in {action.peer}, whose score is {best(action.peer)}")
            elif isinstance(action, Send):
                self._sent(node, promise, event, action, best, now)

    def heartbeat(
        self, node: SimNode, promise: StandingPromise, may_graft: Callable[[Any, Any], bool], now: Micros
    ) -> None:
        """`may_graft` says whether no backoff keeps a peer away in a topic."""
        router = node.router
        assert router is not None
        scores = self._before[node.id]
        for problem in self._asked[node.id].heartbeat(router, promise.asking, now):
            self._problem(now, node, problem)
        for topic in sorted(router.joined):
            mesh: list[Any] = router.strategy.mesh_peers(topic)
            for peer in mesh:
                if scores.get(peer, 0.0) < 0 or peer in promise.direct:
                    why = "is direct" if peer in promise.direct else f"has the score {scores[peer]}"
                    self._problem(now, node, f"mesh of {topic!r} holds {peer}, who {why}")
            dialled = sum(router.connected[peer].outbound for peer in mesh)
            if len(mesh) >= promise.degree_low and dialled < promise.degree_out:
                left = [
                    peer
                    for peer in _dialled_outside(router, topic, mesh)
                    if scores.get(peer, 0.0) >= 0 and peer not in promise.direct and may_graft(topic, peer)
                ]
                if left:
                    self._problem(now, node, f"mesh of {topic!r} has {dialled} dialled peers, and could have {left}")

    def _not_heard(self, node: SimNode, peer: Any, actions: list[Action], now: Micros) -> None:
        for action in actions:
            unsubscribed = isinstance(action, PeerPruned) and action.peer == peer
            if not (unsubscribed or isinstance(action, PartDropped)):
                self._problem(now, node, f"{type(action).__name__} for an RPC of {peer}, who is graylisted")

    def _sent(
        self,
        node: SimNode,
        promise: StandingPromise,
        event: Event,
        action: Send,
        best: Callable[[Any], float],
        now: Micros,
    ) -> None:
        peer = action.peer
        score = best(peer)
        whose = f"{peer}, whose score {score} is below"
        if score < promise.gossip and _is_gossip(action):
            self._problem(now, node, f"gossip with {whose} {promise.gossip}")
        if score < promise.publish and any(via in _BEYOND_THE_MESH for via in action.vias):
            self._problem(now, node, f"message beyond the mesh to {whose} {promise.publish}")
        control = action.rpc.control
        if control is None:
            return
        self._asked[node.id].ask(peer, control.iwant, now)
        for prune in control.prune:
            if prune.peers and score < 0 and not promise.names_to_all and not isinstance(event, Leave):
                self._problem(now, node, f"PRUNE with names to {whose} 0")
            for named in prune.peers:
                if best(named.peer) < 0:
                    self._problem(now, node, f"PRUNE names {named.peer}, whose score is {best(named.peer)}")


def hears_nothing(node: SimNode, promise: StandingPromise, peer: Any) -> bool:
    """Whether a node looks at nothing that a peer says."""
    return _scores(node).get(peer, 0.0) < promise.graylist


def _least(promise: StandingPromise, event: Event, entered: PeerGrafted) -> float:
    """The score that who enters a mesh must have: less is enough for one's own GRAFT than for being grafted."""
    by_itself = isinstance(event, RpcReceived) and event.peer == entered.peer and _says_graft(event, entered)
    return promise.enters if by_itself else 0.0


def _says_graft(event: RpcReceived, entered: PeerGrafted) -> bool:
    control = event.rpc.control
    return control is not None and any(graft.topic == entered.topic for graft in control.graft)


def _scores(node: SimNode) -> dict[Any, float]:
    assert node.router is not None
    return {peer: parts.score for peer, parts in node.router.strategy.scores()}


def _is_gossip(action: Send) -> bool:
    control = action.rpc.control
    return Via.IWANT in action.vias or (control is not None and bool(control.ihave))


def _dialled_outside(router: Router, topic: Any, mesh: list[Any]) -> list[Any]:
    native = router.peers.in_topic(topic).native.ordered
    return [peer for peer in native if peer not in mesh and router.connected[peer].outbound]
