"""Samples of ids, if there are more than an IHAVE may have: each message is announced by some node."""

from __future__ import annotations

from hearsay.core.language.actions import Send
from hearsay.core.language.events import Join, PeerConnected, RpcReceived, TimerFired
from hearsay.core.language.identifiers import MessageId, PeerId
from hearsay.core.language.rpc import MESHSUB, Message, Rpc, Subscription
from hearsay.core.mesh.gossipsub import Gossipsub
from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.rules.randomness import Randomness
from hearsay.core.shell.router import Router

AUTHORS = range(80)
PEERS = range(100, 120)


def announced_by(node: int, messages: list[Message]) -> dict[PeerId, set[MessageId]]:
    """Return the ids that a node announces to each peer in its next heartbeat, after it got these messages."""
    parameters = GossipsubParameters(degree=0, degree_low=0, degree_high=0, degree_lazy=6, max_ids_per_ihave=10)
    router = Router(node, Gossipsub(parameters), Randomness(1))
    router.handle(Join("news"), 0)
    for peer in PEERS:
        router.handle(PeerConnected(peer, MESHSUB), 0)
        router.handle(RpcReceived(peer, Rpc((Subscription("news", True),))), 0)
    router.handle(RpcReceived(PEERS[0], Rpc(messages=tuple(messages))), 1)
    due = router.deadline()
    assert due is not None
    sends = [action for action in router.handle(TimerFired(), due) if isinstance(action, Send)]
    ihaves = {send.peer: send.rpc.control.ihave[0].ids for send in sends if send.rpc.control is not None}
    assert all(len(ids) == 10 and list(ids) == sorted(ids) for ids in ihaves.values())
    return {peer: set(ids) for peer, ids in ihaves.items()}


def test_each_message_is_announced_by_some_node():
    messages = [Message(author, "news", b"", author) for author in AUTHORS]
    announced = [announced_by(node, messages) for node in range(200, 230)]
    assert set().union(*(ids for peers in announced for ids in peers.values())) == set(AUTHORS)
    assert all(len({frozenset(ids) for ids in peers.values()}) > 1 for peers in announced)


def test_the_order_in_which_messages_came_does_not_matter():
    messages = [Message(author, "news", b"", author) for author in AUTHORS]
    assert announced_by(200, messages) == announced_by(200, messages[::-1])
