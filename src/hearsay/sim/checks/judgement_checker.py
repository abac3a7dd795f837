"""What must hold of routers that keep scores (gossipsub 1.1); a part of the checker.

1. when a heartbeat is over nobody in a mesh has a negative score, and no direct peer is in one;
2. a mesh with D_low has D_out dialled peers, or nobody is left who could be grafted for that;
3. no IHAVE goes to, and no IWANT is answered for, a peer below the gossip threshold;
4. none of one's own messages goes beyond the mesh to a peer below the publish threshold.

Scores are looked at when an event is over. Who left a mesh in it is exempt: a heartbeat keeps to the scores that it
began with. So is who sent messages in the same RPC, which may have lowered its score after it was let in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hearsay.core.language.actions import Action, PeerPruned, Send, Via
from hearsay.core.language.events import Event, RpcReceived
from hearsay.core.language.identifiers import Micros
from hearsay.core.shell.promises import StandingPromise
from hearsay.core.shell.router import Router
from hearsay.sim.reference.nodes import SimNode

_OWN = (Via.FLOOD_PUBLISH, Via.FANOUT, Via.TOP_UP)


class JudgementChecker:
    def __init__(self, problem: Callable[[Micros, SimNode, str], None]) -> None:
        self._problem = problem

    def handled(
        self, node: SimNode, promise: StandingPromise, event: Event, actions: list[Action], now: Micros
    ) -> None:
        relevant = [action for action in actions if isinstance(action, Send) and _needs_a_score(action)]
        if not relevant:
            return
        scores = _scores(node)
        exempt: set[Any] = {action.peer for action in actions if isinstance(action, PeerPruned)}
        if isinstance(event, RpcReceived) and event.rpc.messages:
            exempt.add(event.peer)
        for action in relevant:
            peer = action.peer
            score = scores.get(peer, 0.0)
            if peer in exempt or peer in promise.direct:
                continue
            if score < promise.gossip and _is_gossip(action):
                self._problem(now, node, f"gossip with {peer}, whose score {score} is below {promise.gossip}")
            if score < promise.publish and any(via in _OWN for via in action.vias):
                self._problem(now, node, f"own message to {peer}, whose score {score} is below {promise.publish}")

    def heartbeat(
        self, node: SimNode, promise: StandingPromise, may_graft: Callable[[Any, Any], bool], now: Micros
    ) -> None:
        """`may_graft` says whether no backoff keeps a peer away in a topic."""
        router = node.router
        assert router is not None
        scores = _scores(node)
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


def hears_nothing(node: SimNode, promise: StandingPromise, peer: Any) -> bool:
    """Whether a node looks at nothing that a peer says."""
    return _scores(node).get(peer, 0.0) < promise.graylist


def _scores(node: SimNode) -> dict[Any, float]:
    assert node.router is not None
    return {peer: parts.score for peer, parts in node.router.strategy.scores()}


def _is_gossip(action: Send) -> bool:
    control = action.rpc.control
    return Via.IWANT in action.vias or (control is not None and bool(control.ihave))


def _needs_a_score(action: Send) -> bool:
    return _is_gossip(action) or any(via in _OWN for via in action.vias)


def _dialled_outside(router: Router, topic: Any, mesh: list[Any]) -> list[Any]:
    native = router.peers.in_topic(topic).native.ordered
    return [peer for peer in native if peer not in mesh and router.connected[peer].outbound]
