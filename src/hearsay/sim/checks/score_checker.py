"""The invariants of routers with scores (gossipsub 1.1); a part of the checker.

1. after a heartbeat no mesh has a member with a negative score, or a direct peer;
2. a mesh of D_low or more peers has D_out that the node dialled, or no other dialled peer could be grafted;
3. no peer with a negative score enters a mesh, or is named by a PRUNE; a PRUNE to such a peer names no peers, except
   when the node leaves the topic (as in go-libp2p);
4. a peer below the gossip threshold gets no IHAVE, and no answer to its IWANT;
5. a peer below the publish threshold gets none of the node's own messages, unless it is in the mesh (a floodsub peer
   never is);
6. from an RPC of a peer below the graylist threshold only the subscriptions are handled: all other parts are dropped,
   and nothing is sent in answer;
7. a router awaits an answer to IWANT only if it sent the peer an IWANT for the message at the time that the wait
   began, only until the answer is due, and only while the message has not arrived; if it tracks one message of each
   IWANT, it awaits no more than that.

A graylisted peer may get subscriptions, the PRUNE that ends its membership, and all that a mesh member gets until the
next heartbeat prunes it.

Scores are compared before and after an event; the better one counts. A peer that leaves a mesh in the event is
exempt, because a heartbeat uses the scores from its beginning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from hearsay.core.language.actions import Action, PartDropped, PeerGrafted, PeerPruned, Send, Via
from hearsay.core.language.events import Event, Leave, RpcReceived
from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import IWant
from hearsay.core.shell.guarantees import AskingPromise, StandingPromise
from hearsay.core.shell.router import Router
from hearsay.sim.reference.nodes import SimNode

_BEYOND_THE_MESH = (Via.FLOOD_PUBLISH, Via.FANOUT, Via.TOP_UP, Via.FLOOD)


class _AskedIds:
    """The IWANTs of one node, by peer and time."""

    def __init__(self) -> None:
        self._asked: dict[tuple[Any, Micros], list[IWant]] = {}

    def add(self, peer: Any, parts: tuple[IWant, ...], now: Micros) -> None:
        self._asked.setdefault((peer, now), []).extend(parts)

    def heartbeat(self, router: Router, promise: AskingPromise, now: Micros) -> Iterator[str]:
        """Yield the problems with the answers that a router awaits after a heartbeat."""
        of_peer: Counter[Any] = Counter()
        of_iwant: Counter[tuple[Any, Micros]] = Counter()
        for (peer, message_id), until in promise.waited_for.items():
            asked_at = (peer, until - promise.answer_us)
            parts = self._asked.get(asked_at, [])
            of_peer[peer] += 1
            of_iwant[asked_at] += 1
            if until < now:
                yield f"awaits message {message_id} of {peer}, whose time ended at {until} us"
            if message_id in router.known and not promise.of_the_asked:
                yield f"awaits message {message_id} of {peer}, which has arrived"
            if not any(message_id in part.ids for part in parts):
                yield f"awaits message {message_id} of {peer}, which was not asked for it then"
            if promise.one_of_each and of_iwant[asked_at] > len(parts):
                yield f"awaits {of_iwant[asked_at]} messages of {peer} after {len(parts)} IWANT"
        if max(of_peer.values(), default=0) > promise.most_of_one:
            yield f"awaits {max(of_peer.values())} messages of one peer, above {promise.most_of_one}"
        if of_peer.total() > promise.most:
            yield f"awaits {of_peer.total()} messages, above {promise.most}"
        for key in [key for key in self._asked if key[1] + promise.answer_us < now]:
            del self._asked[key]


class ScoreChecker:
    """Checks the scores and their effects at all nodes."""

    def __init__(self, problem: Callable[[Micros, SimNode, str], None]) -> None:
        self._problem = problem
        self._before: dict[int, dict[Any, float]] = {}
        """The scores of each node's peers after its last event."""
        self._asked: dict[int, _AskedIds] = {}

    def node_started(self, node: SimNode) -> None:
        self._before[node.id] = {}
        self._asked[node.id] = _AskedIds()

    def accepts_from(self, node: SimNode, promise: StandingPromise | None, peer: Any) -> bool:
        """Return whether a node accepts more than subscriptions from a peer in its next event."""
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
            """Return the better score of a peer, before or after the event; 0 if the peer is exempt."""
            exempt = peer in promise.direct or peer in pruned
            return 0.0 if exempt else max(before.get(peer, 0.0), after.get(peer, 0.0))

        if isinstance(event, RpcReceived) and best(event.peer) < promise.graylist:
            self._require_ignored(node, event.peer, actions, now)
        for action in actions:
            if isinstance(action, PeerGrafted) and best(action.peer) < _required_score(promise, event, action):
                self._problem(now, node, f"accepts {action.peer}, whose score is {best(action.peer)}")
            elif isinstance(action, Send):
                self._sent(node, promise, event, action, best, now)

    def heartbeat(
        self, node: SimNode, promise: StandingPromise, may_graft: Callable[[Any, Any], bool], now: Micros
    ) -> None:
        """Check the meshes after a heartbeat; `may_graft` returns whether no backoff forbids a GRAFT."""
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
                    self._problem(now, node, f"mesh of {topic!r} holds {peer}, which {why}")
            dialled = sum(router.connected[peer].outbound for peer in mesh)
            if len(mesh) >= promise.degree_low and dialled < promise.degree_out:
                others = [peer for peer in router.peers.in_topic(topic).native.ordered if peer not in mesh]
                left = [
                    peer
                    for peer in others
                    if router.connected[peer].outbound
                    and scores.get(peer, 0.0) >= 0
                    and peer not in promise.direct
                    and may_graft(topic, peer)
                ]
                if left:
                    self._problem(now, node, f"mesh of {topic!r} has {dialled} dialled peers, and could have {left}")

    def _require_ignored(self, node: SimNode, peer: Any, actions: list[Action], now: Micros) -> None:
        for action in actions:
            unsubscribed = isinstance(action, PeerPruned) and action.peer == peer
            if not (unsubscribed or isinstance(action, PartDropped)):
                self._problem(now, node, f"{type(action).__name__} for an RPC of {peer}, which is graylisted")

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
        control = action.rpc.control
        is_gossip = Via.IWANT in action.vias or (control is not None and control.ihave)
        if score < promise.gossip and is_gossip:
            self._problem(now, node, f"gossip with {whose} {promise.gossip}")
        if score < promise.publish and any(via in _BEYOND_THE_MESH for via in action.vias):
            self._problem(now, node, f"message beyond the mesh to {whose} {promise.publish}")
        if control is None:
            return
        self._asked[node.id].add(peer, control.iwant, now)
        for prune in control.prune:
            if prune.peers and score < 0 and not promise.names_to_all and not isinstance(event, Leave):
                self._problem(now, node, f"PRUNE with names to {whose} 0")
            for named in prune.peers:
                if best(named.peer) < 0:
                    self._problem(now, node, f"PRUNE names {named.peer}, whose score is {best(named.peer)}")


def ignores_peer(node: SimNode, promise: StandingPromise, peer: Any) -> bool:
    """Return whether a node accepts nothing but subscriptions from a peer."""
    return _scores(node).get(peer, 0.0) < promise.graylist


def _required_score(promise: StandingPromise, event: Event, entered: PeerGrafted) -> float:
    """Return the score that a peer needs to enter a mesh: the router's threshold if the peer sent a GRAFT, else 0."""
    control = event.rpc.control if isinstance(event, RpcReceived) and event.peer == entered.peer else None
    by_itself = control is not None and any(graft.topic == entered.topic for graft in control.graft)
    return promise.enters if by_itself else 0.0


def _scores(node: SimNode) -> dict[Any, float]:
    assert node.router is not None
    return {peer: parts.score for peer, parts in node.router.strategy.scores()}
