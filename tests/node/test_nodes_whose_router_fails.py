"""A router that raises ends its node, which closes in order; each waiting caller gets the reason."""

from __future__ import annotations

import asyncio

import pytest
from waiting import run

from hearsay.core.flooding import Floodsub, FloodsubParameters
from hearsay.core.registry import RouterKind
from hearsay.core.shell.contract import RouterFailed
from hearsay.node.config import NodeConfig
from hearsay.node.node import Node
from hearsay.trace.compare_runs import verify


class Half(Floodsub):
    """A router that publishes, but fails at the first message of a peer."""

    def accepted(self, message, received_from):
        raise KeyError("boom")


class Mute(Floodsub):
    def publish(self, message):
        raise KeyError("boom")


HALF, MUTE = (RouterKind(kind.__name__.lower(), FloodsubParameters, kind, {"r1": {}}) for kind in (Half, Mute))
WORDS = (
    r"router half failed at this node, handling \w+: KeyError: 'boom' "
    r"\(.*test_nodes_whose_router_fails\.py:\d+, in accepted\)"
)


async def receives_a_message(node, sender):
    async with node:
        topic = await node.join("news")
        waiting = asyncio.create_task(node.wait_for_peers("elsewhere"))
        await node.connect(sender.addresses[0])
        await sender.wait_for_peers("news")
        await sender.publish("news", b"hello")
        for waiting_call in (topic.next(), waiting, topic.publish(b"late")):
            with pytest.raises(RouterFailed, match=WORDS):
                await waiting_call


async def publishes(node):
    async with node:
        await node.publish("news", b"hello")


def test_iterations_and_waits_end_when_the_router_fails(tmp_path):
    @run
    async def test():
        async with Node(NodeConfig(router="floodsub")) as sender:
            await sender.join("news")
            node = Node(NodeConfig(router=HALF), trace=str(tmp_path / "trace"))
            with pytest.raises(RouterFailed, match=WORDS):
                await receives_a_message(node, sender)
            assert isinstance(node.failure.__cause__, KeyError)
            while sender.peers:
                await asyncio.sleep(0.005)

    test()
    assert verify(tmp_path / "trace") == []


def test_a_publication_at_which_the_router_fails_raises():
    @run
    async def test():
        with pytest.raises(RouterFailed, match="router mute failed at this node, handling Publish: KeyError"):
            await publishes(Node(NodeConfig(router=MUTE)))

    test()
