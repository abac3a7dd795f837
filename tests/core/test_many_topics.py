"""One node in 5,000 topics: each topic has its own mesh, and one heartbeat maintains all meshes."""

from __future__ import annotations

from hearsay.core.language.actions import Send
from hearsay.core.language.events import Join, PeerConnected, Publish, RpcReceived, TimerFired
from hearsay.core.language.rpc import MESHSUB, Message, Rpc, Subscription
from hearsay.core.mesh.gossipsub import Gossipsub
from hearsay.core.rules.randomness import Randomness
from hearsay.core.shell.router import Router

TOPICS = tuple(f"topic-{number}" for number in range(5000))


def test_each_of_five_thousand_topics_has_a_mesh_of_its_own():
    router = Router(0, Gossipsub(), Randomness(1))
    for topic in TOPICS:
        router.handle(Join(topic), 0)
    for peer in range(1, 9):
        (hello,) = [action for action in router.handle(PeerConnected(peer, MESHSUB), 0) if isinstance(action, Send)]
        assert len(hello.rpc.subscriptions) == 5000
        everything = tuple(Subscription(topic, True) for topic in TOPICS)
        router.handle(RpcReceived(peer, Rpc(everything)), 0)
    due = router.deadline()
    assert due is not None
    sends = [action for action in router.handle(TimerFired(), due) if isinstance(action, Send)]
    grafts = [graft.topic for send in sends for graft in send.rpc.control.graft]
    assert [send.peer for send in sends] == list(range(1, 9))
    assert len(grafts) == 6 * 5000

    meshes = {topic: frozenset(mesh) for topic, mesh in router.strategy.mesh.topics.items()}
    assert len(set(meshes.values())) == 28  # every choice of 6 of 8: the topic is part of the hash
    for number, topic in enumerate(TOPICS[:50]):
        sent = [
            action for action in router.handle(Publish(Message(number, topic, b"")), due) if isinstance(action, Send)
        ]
        assert {send.peer for send in sent} == meshes[topic]
