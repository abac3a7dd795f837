"""Nodes accept the presets of implementations and of networks, and the parameters of a preset."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
from waiting import run, until

from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.shell.parameters import ParameterError
from hearsay.node.config import NodeConfig
from hearsay.node.node import Node

QUICK = {"heartbeat_interval_ms": 100, "first_heartbeat_ms": 20}


def parameters(preset, **given):
    found = NodeConfig(preset=preset, parameters=given).router_parameters()[1]
    assert isinstance(found, GossipsubParameters)
    return found


def test_a_preset_with_a_score_leaves_addresses_to_it():
    assert (parameters("go").places_per_address, parameters("rust").places_per_address) == (2, 0)
    assert parameters("rust").score.thresholds.graylist == -80


def test_scores_of_ethereum_depend_on_the_number_of_validators():
    few, many = (parameters("ethereum", validators=count).score for count in (51_000, 1_000_000))
    assert (
        few.topics["beacon_attestation"].first_deliveries_cap < many.topics["beacon_attestation"].first_deliveries_cap
    )
    assert parameters("ethereum").score == many


@pytest.mark.parametrize("preset", ["go", "filecoin"])
def test_a_number_of_validators_is_refused_for_other_presets(preset):
    with pytest.raises(ParameterError, match="validators = 9000: is for the presets ethereum, ethereum-prysm"):
        parameters(preset, validators=9_000)


@run
async def test_five_implementations_in_one_network_of_real_nodes():
    """Each node gets the messages of all."""
    async with AsyncExitStack() as stack:
        configs = [NodeConfig(preset=name, parameters=QUICK) for name in ("go", "rust", "js", "nim", "jvm")]
        nodes = [await stack.enter_async_context(Node(config)) for config in configs]
        topics = [await node.join("news") for node in nodes]
        for number, node in enumerate(nodes):
            for other in nodes[:number]:
                await node.connect(other.addresses[0])
        await until(lambda: all(len(node.mesh("news")) == 4 for node in nodes))
        for number, node in enumerate(nodes):
            await node.publish("news", b"of node %d" % number)
        everything = {b"of node %d" % number for number in range(5)}
        for topic in topics:
            assert {(await topic.next()).data for _ in range(5)} == everything
