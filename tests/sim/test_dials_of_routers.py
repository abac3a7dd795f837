"""Routers dial the peers that a PRUNE names, and direct peers."""

from __future__ import annotations

from collections import Counter

import pytest
from test_identities import Events

from hearsay.core.flooding import Floodsub, FloodsubParameters
from hearsay.core.language.actions import Dial, NamedPeerDialled
from hearsay.core.language.events import DialFailed
from hearsay.core.language.rpc import PartKind
from hearsay.core.registry import RouterKind
from hearsay.sim.plan.engines import routers_dial
from hearsay.sim.reference.connections import MAX_DIALS
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import Simulation
from hearsay.trace.language.schema import TraceEvent, TraceRow

NODES = 25
HUB = {
    "network.nodes": NODES,
    "workload.messages": 2,
    "linger_s": 20,
    "router.prune_backoff_ms": 5000,
    "router.full_mesh": "refuse",
    "router.exchange_peers": 4,
}


@pytest.fixture
def hub(tmp_path):
    """Return a function that runs a network in which at first all nodes are connected to node 0 only."""
    edges = tmp_path / "edges"
    edges.write_text("".join(f"{node} 0\n" for node in range(1, NODES)))

    def run(**keys) -> tuple[list[TraceRow], Simulation]:
        settings = {**HUB, "network.topology": "edge_list", "network.edges_file": edges, **keys}
        rows: list[TraceRow] = []
        overrides = [(key.replace("__", "."), str(value)) for key, value in settings.items()]
        simulation = Simulation(load_scenario(None, "r1", overrides), check=True, listener=rows.append)
        assert simulation.run().problems == ()
        return rows, simulation

    return run


def connections(rows: list[TraceRow]) -> set[tuple[int, int]]:
    return {
        (min(row.peer, row.remote), max(row.peer, row.remote)) for row in rows if row.event == TraceEvent.ADD_PEER
    }


def sent_connects(rows: list[TraceRow]) -> int:
    return sum(row.event == TraceEvent.SEND_RPC and row.kind == PartKind.CONNECT for row in rows)


def test_a_peer_that_a_prune_names_is_dialled_if_the_router_accepts_it(hub):
    alone, _ = hub()
    assert connections(alone) == {(0, node) for node in range(1, NODES)}
    assert sent_connects(alone) == NODES - 1
    exchanged, simulation = hub(router__accept_exchange="true")
    assert len(connections(exchanged)) > 2 * NODES
    assert sent_connects(exchanged) >= len(connections(exchanged))
    assert simulation.engine.figures().sent[PartKind.CONNECT] == sent_connects(exchanged)


@pytest.mark.parametrize("rating", [2_500, 999])
def test_filecoin_nodes_dial_peers_that_a_highly_rated_bootstrap_node_names(hub, rating):
    lotus = {
        "router__preset": "filecoin",
        "router__exchange_peers": 0,
        "population": '[{listed = [0], router = {preset = "filecoin-bootstrap"}}]',
        "ratings": f"[{{rating = {rating}, listed = [0]}}]",
        "topics": '[{name = "/fil/blocks/testnetnet"}]',
    }
    rows, _ = hub(**lotus)
    met = {pair for pair in connections(rows) if 0 not in pair}
    assert len(met) > 2 * NODES if rating == 2_500 else not met


def dials(rows: list[TraceRow]) -> Counter[tuple[int, int | None, int | None]]:
    """Count the dials before 15 s by time, dialler and dialled node. Later dials may not arrive before the end."""
    found = [row for row in rows if row.event == TraceEvent.DIAL and row.time_us < 15_000_000]
    return Counter((row.time_us, row.peer, row.remote) for row in found)


def test_only_dials_of_named_peers_have_dial_rows(hub):
    assert not dials(hub()[0])
    rows, _ = hub(router__accept_exchange="true")
    arrived = Counter(
        (row.time_us, row.peer, row.remote)
        for row in rows
        if row.event == TraceEvent.SEND_RPC and row.kind == PartKind.CONNECT
        if 0 not in (row.peer, row.remote) and row.time_us < 15_000_000
    )
    assert dials(rows) == arrived
    assert arrived.total() > NODES
    assert {row.topic for row in rows if row.event == TraceEvent.DIAL} == {0}


class DialsNamedPeers(Floodsub):
    """A router that reports dials of named peers, some of which do not exist."""

    def joined(self, topic):
        self.shell.actions += [NamedPeerDialled(topic, who) for who in (-1, 2, 3, 10_000)]


DIALS_NAMED_PEERS = RouterKind("dials_named_peers", FloodsubParameters, DialsNamedPeers, {"r1": {}})


def test_an_unknown_peer_has_no_number_in_the_row():
    dial_rows = []
    keys = [("network.nodes", "3"), ("network.degree", "1"), ("workload.messages", "0")]
    scenario = load_scenario(None, "r1", keys, router=f"{__name__}:DIALS_NAMED_PEERS")
    Simulation(scenario, listener=lambda row: dial_rows.append(row) if row.event == TraceEvent.DIAL else None).run()
    for node in range(3):
        assert [row.remote for row in dial_rows if row.peer == node] == [None, 2, None, None]


def test_nodes_behind_nat_do_not_connect_to_each_other(hub):
    rows, simulation = hub(router__accept_exchange="true", network__nat_share=0.4)
    natted = simulation.plan.natted - {0}
    assert len(natted) >= 9
    met = {pair for pair in connections(rows) if 0 not in pair}
    assert met
    assert not any(one in natted and other in natted for one, other in met)


class DialsTooMuch(Floodsub):
    """A router that dials itself, peers that do not exist, and one peer more often than `MAX_DIALS` allows."""

    def joined(self, topic):
        self.shell.due = self.shell.now + 1_000_000

    def timer_fired(self):
        self.shell.due = None
        node = self.shell.node
        self.shell.actions += [Dial(who) for who in (node, -1, 10_000)]
        self.shell.actions += [Dial((node + 1) % 4)] * (MAX_DIALS + 7)


DIALS_TOO_MUCH = RouterKind("dials_too_much", FloodsubParameters, DialsTooMuch, {"r1": {}})


class Failures(Events):
    """Records failed dials, too: node, time in microseconds, and dialled peer."""

    def __init__(self):
        super().__init__()
        self.failed = []

    def handled(self, node, event, actions, now):
        super().handled(node, event, actions, now)
        if isinstance(event, DialFailed):
            self.failed.append((node.id, now, event.peer))


def watched(router, **keys):
    overrides = [(key.replace("__", "."), str(value)) for key, value in keys.items()]
    simulation = Simulation(load_scenario(None, "r1", overrides, router=router))
    simulation.engine.observer = watcher = Failures()
    simulation.run()
    return watcher, simulation


def test_an_unknown_peer_cannot_be_dialled_and_dials_have_a_bound():
    watcher, _ = watched(f"{__name__}:DIALS_TOO_MUCH", network__nodes=4, network__degree=0, workload__messages=0)
    for node in range(4):
        failed = [peer for failing, now, peer in watcher.failed if failing == node]
        assert [failed.count(who) for who in (node, -1, 10_000)] == [1, 1, 1]
        assert failed.count((node + 1) % 4) == 7
    assert {now for _, now, _ in watcher.failed} == {1_000_000}
    met = {(node, event.peer) for node, event in watcher.connected}
    assert met == {(node, (node + step) % 4) for node in range(4) for step in (1, 3)}


DIRECT = {
    "network__nodes": 16,
    "network__degree": 2,
    "workload__messages": 0,
    "linger_s": 14,
    "router__direct_connect_ticks": 3,
    "router__direct_peers": "[[1, 5], [9, 2], [5, 2]]",
}


def test_direct_peers_know_each_other_and_are_connected_from_the_start():
    watcher, simulation = watched("gossipsub", **DIRECT)
    direct = {node.id: node.router.strategy.standing.direct for node in simulation.engine.nodes}
    assert {node: peers for node, peers in direct.items() if peers} == {1: {5}, 2: {5, 9}, 5: {1, 2}, 9: {2}}
    met = {(node, event.peer) for node, event in watcher.connected}
    assert {(1, 5), (5, 1), (9, 2), (2, 9), (5, 2), (2, 5)} <= met


def test_a_lost_direct_peer_is_dialled_again():
    def times(**keys):
        found = []
        simulation = Simulation(
            load_scenario(None, "r1", [(key.replace("__", "."), str(value)) for key, value in keys.items()]),
            listener=lambda row: found.append(row) if row.event == TraceEvent.ADD_PEER else None,
        )
        simulation.run()
        return [row.time_us for row in found if (row.peer, row.remote) == (1, 5)]

    cut = "[{at_s = 2, heal_s = 2.5, links = [[1, 5]]}]"
    again = times(**DIRECT, faults__cut=cut, faults__redial=0)
    assert len(again) == 2
    assert 3_000_000 < again[1] < 8_000_000


def test_a_node_behind_nat_dials_its_direct_peer():
    for seed in range(1, 6):
        watcher, simulation = watched("gossipsub", **DIRECT, network__nat_share=0.4, seed=seed)
        natted = simulation.plan.natted
        met = {(node, event.peer): event.outbound for node, event in watcher.connected}
        for one, other in ((1, 5), (9, 2), (5, 2)):
            assert ((one, other) in met) == (not {one, other} <= natted)
            if (one, other) in met and other in natted:
                assert not met[one, other]


@pytest.mark.parametrize(("backoff_ms", "dials"), [(200, True), (0, False)])
def test_a_router_dials_if_peers_name_others_only_when_they_leave(backoff_ms, dials):
    keys = {"exchange_peers": 3, "accept_exchange": "true", "unsubscribe_backoff_ms": backoff_ms}
    scenario = load_scenario(None, "r1", [(f"router.{key}", str(value)) for key, value in keys.items()])
    assert routers_dial(scenario) is dials
