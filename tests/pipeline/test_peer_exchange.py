"""The table `exchange` (dials of peers that PRUNEs named), compared with plain Python over the rows in order."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import count

import duckdb
import pytest
from dataframes import assert_stored_tables
from simulated_runs import SMALL, analyse_runs, simulate_into

from hearsay.core.language.actions import Deliver, NamedPeerDialled, PeerAdded, PeerRemoved, TopicJoined
from hearsay.core.language.rpc import Message, Rpc, Subscription
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.peer_id import peer_id_of
from hearsay.node.live_trace import LiveTrace
from hearsay.pipeline.output.tables import read_table
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import Simulation
from hearsay.trace.folder.run_folder import RunFolder
from hearsay.trace.language.schema import TraceEvent

NODES = 40
GROWING = [
    ("network.nodes", str(NODES)), ("network.topology", "edge_list"), ("workload.messages", "20"),
    ("workload.interval_s", "0.5"), ("workload.publishers", "any"), ("linger_s", "6"), ("router.preset", "go"),
    ("router.accept_exchange", "true"), ("router.exchange_peers", "8"), ("network.nat_share", "0.2"),
    ("faults.crash", "[{at_s=8,share=0.3,rejoin_after_s=2}]"), ("faults.redial", "1"),
    ("population", "[{share=0.025,router={kind='gossipsub',preset='bootstrapper'}}]"),
]  # fmt: skip
"""A network of nodes that at first know only one node, the bootstrapper."""


@pytest.fixture(scope="module")
def growing(tmp_path_factory):
    """Return the run, its rows in the order of events, and the number of the bootstrapper."""
    base = tmp_path_factory.mktemp("exchange")
    edges = base / "edges"
    keys = [*GROWING, ("network.edges_file", str(edges))]

    def scenario(start: int):
        edges.write_text("".join(f"{node} {start}\n" for node in range(NODES) if node != start))
        return load_scenario(None, "r1", keys, router="gossipsub")

    (boot,) = [node for node, router in enumerate(Simulation(scenario(0)).plan.router_of) if router]
    rows = []
    Simulation(scenario(boot), folder=RunFolder.create(base / "growing"), listener=rows.append).run()
    return base / "growing", rows, boot


@pytest.fixture(scope="module")
def living(tmp_path_factory):
    """Return the trace of a node with two lives. Some of its connections follow a dial. Rows are a second apart."""
    folder = tmp_path_factory.mktemp("living") / "living"
    node, a, b, c = (peer_id_of(PrivateKey.generate().public) for _ in range(4))
    clock = count(1_000_000_000, 1_000_000).__next__
    message = Message(b"1", "news", b"", a, b"1")

    def dial(peer):
        return NamedPeerDialled("news", peer)

    def connect(peer):
        return PeerAdded(peer, "/meshsub/1.1.0")

    async def live(*happened) -> None:
        trace = LiveTrace(folder, node, clock, "hearsay/test")
        for action in (TopicJoined("news"), *happened):
            trace.happened(action)
        trace.received(a, Rpc((Subscription("news", True),)))
        trace.delivered(Deliver(message, a))
        await trace.close()

    asyncio.run(live(connect(a), dial(b), dial(b), connect(b), PeerRemoved(b), connect(b), dial(c)))
    asyncio.run(live(connect(c), connect(a), PeerRemoved(a), dial(a), connect(a)))
    return folder


@pytest.fixture(scope="module")
def runs(spark, tmp_path_factory, growing, living):
    plain = simulate_into(tmp_path_factory.mktemp("plain") / "plain", "r1", "gossipsub", SMALL)
    return analyse_runs(spark, {"growing": growing[0], "living": living, "plain": plain})


def stored(path) -> dict[int, tuple[int, int, int]]:
    """Return dials, connections and nodes by second."""
    lines = read_table(path, "exchange").to_pylist()
    assert {line["seconds"] for line in lines} <= {1}
    return {line["second"]: (line["dials"], line["connections"], line["nodes"]) for line in lines}


def test_dials_and_the_connections_that_they_opened(runs, growing):
    _, rows, boot = growing
    dialled: set[tuple[int, int]] = set()
    counts = {name: Counter() for name in ("dials", "connections", "nodes")}
    connected: set[int] = set()
    for row in rows:
        second, pair = row.time_us // 1_000_000, (row.peer, row.remote)
        if row.event == TraceEvent.NODE_UP:
            dialled = {each for each in dialled if each[0] != row.peer}
        elif row.event == TraceEvent.DIAL:
            dialled.add(pair)
            counts["dials"][second] += 1
        elif row.event == TraceEvent.REMOVE_PEER:
            dialled.discard(pair)
        elif row.event == TraceEvent.ADD_PEER and pair in dialled:
            dialled.discard(pair)
            counts["connections"][second] += 1
            counts["nodes"][second] += row.peer not in connected
            connected.add(row.peer)
    seconds = {second for each in counts.values() for second in each}
    assert stored(runs["growing"]) == {
        second: tuple(counts[name][second] for name in ("dials", "connections", "nodes")) for second in seconds
    }
    dials, connections = counts["dials"].total(), counts["connections"].total()
    assert NODES < connections < dials
    assert len(connected) > NODES / 2
    assert boot not in connected
    ((in_all,),) = duckdb.sql(
        f"select count(*) from read_parquet('{runs['growing']}/trace/class=exchange/*.parquet') where event = 'dial'"
    ).fetchall()
    assert in_all == dials


def test_a_dial_opens_a_connection_only_if_no_other_event_comes_between(runs):
    """Such events are the end of an earlier connection and a restart of the node. Two dials open one connection."""
    lines = stored(runs["living"])
    assert [sum(column) for column in zip(*lines.values(), strict=True)] == [4, 2, 1]
    first, second = (second for second, (_, connections, _) in sorted(lines.items()) if connections)
    assert (lines[first], lines[second]) == ((0, 1, 1), (0, 1, 0))
    assert lines[first - 1] == lines[first - 2] == lines[second - 1] == (1, 0, 0)


def test_a_run_without_dials_of_named_peers_has_no_lines(runs):
    assert stored(runs["plain"]) == {}


def test_dataframes_equal_the_stored_tables(spark, runs):
    assert_stored_tables(spark, runs)
