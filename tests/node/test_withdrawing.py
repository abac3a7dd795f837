"""A node with `withdraw_unwanted` removes a waiting copy if its peer sends IDONTWANT for the message."""

from __future__ import annotations

import pytest
from waiting import run, until

from hearsay.core.language.events import RpcReceived
from hearsay.core.language.rpc import Control, IDontWant, Rpc
from hearsay.node.config import NodeConfig
from hearsay.node.node import Node

QUICK = {"heartbeat_interval_ms": 100, "first_heartbeat_ms": 20, "first_heartbeat_spread_ms": 50}


async def publish_two_and_refuse_the_first(withdraws: bool) -> tuple[list[bytes], int]:
    """Publish two messages, with an IDONTWANT from the peer for the first before it is sent. Return the data that
    arrive at the peer, and the number of withdrawn messages.
    """
    parameters = {**QUICK, "idontwant_threshold_bytes": 4, "withdraw_unwanted": withdraws}
    async with Node(NodeConfig(parameters=parameters)) as one, Node(NodeConfig(parameters=parameters)) as other:
        topic = await other.join("news")
        await one.join("news")
        await one.connect(other.addresses[0])
        await until(lambda: other.peer in one.mesh("news") and one.peer in other.mesh("news"))
        first = await one.publish("news", b"first")
        said = Rpc(control=Control(idontwant=(IDontWant((first.message_id,)),)))
        one._running.feed(RpcReceived(other.peer, said))
        await one.publish("news", b"last")
        arrived = [(await topic.next()).data]
        while arrived[-1] != b"last":
            arrived.append((await topic.next()).data)
        return arrived, one.statistics.messages_withdrawn


@pytest.mark.parametrize(("withdraws", "expected"), [(True, ([b"last"], 1)), (False, ([b"first", b"last"], 0))])
def test_an_unwanted_copy_that_waits_is_withdrawn_only_with_the_parameter(withdraws, expected):
    """Rules: IDONTWANT-4."""

    async def compare():
        assert await publish_two_and_refuse_the_first(withdraws) == expected

    run(compare)()
