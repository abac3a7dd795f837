"""A router of another package states its promises; checker and node treat it like a built-in router."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from waiting import run, until

from hearsay.core.flooding import FloodsubParameters
from hearsay.core.language.actions import Via
from hearsay.core.language.rpc import FLOODSUB
from hearsay.core.registry import RouterKind
from hearsay.core.shell.guarantees import MeshPromise, OverlayPromise, OverlayState, Peering, Promises
from hearsay.core.shell.parameters import integer
from hearsay.core.shell.strategy import Strategy
from hearsay.node.config import NodeConfig
from hearsay.node.node import Node
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import Simulation

HEARTBEAT_US = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CliqueParameters(FloodsubParameters):
    promised: int = integer(100, low=0)
    passive_limit: int = integer(100, low=0)


class Clique(Strategy):
    """A router whose mesh has all native peers of the topic."""

    protocols = ("/clique/1.0.0", FLOODSUB)
    native_protocols = ("/clique/1.0.0",)

    def __init__(self, parameters=None):
        self.limits = parameters or CliqueParameters()
        super().__init__(self.limits)
        self.removed = set()

    def publish(self, message):
        self.accepted(message, None)

    def accepted(self, message, received_from):
        peers = sorted(peer for topic, peer, _ in self.peerings() if topic == message.topic)
        self.shell.outbox.forward(peers, message, Via.MESH, received_from)

    def joined(self, topic):
        self.shell.due = self.shell.now + HEARTBEAT_US

    def timer_fired(self):
        self.shell.due = self.shell.now + HEARTBEAT_US

    def peerings(self):
        for topic in sorted(self.shell.joined):
            for peer in self.shell.peers.in_topic(topic).native:
                yield topic, peer, Peering.FULL_MESSAGE

    def reaches(self, topic):
        return bool(self.mesh_peers(topic)) if topic in self.shell.joined else super().reaches(topic)

    def overlays(self):
        peers = {topic: set(self.mesh_peers(topic)) for topic in sorted(self.shell.joined)}
        return {
            topic: OverlayState(
                active=active,
                passive={-1},
                eager=active,
                lazy=set(),
                active_limit=None,
                passive_limit=self.limits.passive_limit,
                bounded=(),
            )
            for topic, active in peers.items()
        }

    def promises(self):
        overlay = OverlayPromise(one_tree=False, only_tried_leave=True, ping_answer_us=1, recovery_us=1)
        return Promises(mesh=MeshPromise(lowest=0, highest=self.limits.promised), overlay=overlay)


class OneSided(Clique):
    """A clique in which nodes with odd numbers have an empty mesh."""

    def peerings(self):
        yield from () if int(self.shell.node) % 2 else super().peerings()


class Meshless(Clique):
    """A clique in which every mesh is empty."""

    def peerings(self):
        yield from ()


class Remembering(Clique):
    """A clique whose routers remember disconnected peers."""

    def peer_removed(self, peer):
        self.removed.add(peer.id)

    def remembers(self, peer):
        return peer in self.removed


CLIQUE, ONE_SIDED, REMEMBERING, MESHLESS = (
    RouterKind(kind.__name__.lower(), CliqueParameters, kind, {"r1": {}})
    for kind in (Clique, OneSided, Remembering, Meshless)
)


def problems(router="CLIQUE", **keys):
    settings = {"network.nodes": 8, "workload.messages": 2, "linger_s": 3, **keys}
    overrides = [(key.replace("__", "."), str(value)) for key, value in settings.items()]
    scenario = load_scenario(None, "r1", overrides, router=f"{__name__}:{router}")
    return Simulation(scenario, check=True).run().problems


def test_a_router_that_keeps_its_promises_has_no_problems():
    assert problems() == ()


@pytest.mark.parametrize(
    ("problem_pattern", "router", "keys"),
    [
        ("mesh of 'topic' has . peers after a heartbeat, above 2", "CLIQUE", {"router__promised": 2}),
        ("passive list of 'topic' has 1 peers, above 0", "CLIQUE", {"router__passive_limit": 0}),
        ("mesh link of 'topic' to . is not mutual", "ONE_SIDED", {}),
        ("counts of . are left after its disconnect", "REMEMBERING", {"faults__crash": "[{at_s = 2, share = 0.3}]"}),
    ],
)
def test_a_broken_promise_is_a_problem(problem_pattern, router, keys):
    found = problems(router, **keys)
    assert any(re.search(problem_pattern, problem) for problem in found), found


@run
async def test_a_node_shows_the_mesh_of_an_outside_router():
    async with Node(NodeConfig(router=CLIQUE)) as one, Node(NodeConfig(router=MESHLESS)) as other:
        await one.connect(other.addresses[0])
        await one.join("news")
        await other.join("news")
        await until(lambda: one.topic_peers("news") == other.topic_peers("news") == 1)
        assert one.mesh("news") == (other.peer,)
        assert one.reaches_somebody("news")
        assert other.mesh("news") == ()
        assert not other.reaches_somebody("news")
