"""Networks of routers with scores: go-libp2p-pubsub's tests with their numbers of nodes, messages and seconds."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from judged import MS, SECOND, TOPIC, score
from judged_network import JudgedNetwork

from hearsay.core.language.events import DirectPeerChosen, PeerRated
from hearsay.core.registry import ROUTERS
from hearsay.core.shell.parameters import preset_values

TWENTY = [f"n{number:02}" for number in range(20)]


def dense(net, names, degree=10):
    """Each router dials a number of the others, drawn by chance."""
    draws = random.Random(1)
    for name in names:
        for peer in draws.sample(sorted(set(names) - {name}), degree):
            if (name, peer) not in net.links:
                net.connect(name, peer)


def test_a_node_with_a_negative_score_gets_and_gives_nothing():
    """Go's NegativeScore: 20 dense nodes, one at -1000, thresholds -10/-100/-10000; it has its own message only."""
    net = JudgedNetwork()
    net.add(*TWENTY, score=score())
    dense(net, TWENTY)
    for name in TWENTY[1:]:
        net.feed(name, PeerRated("n00", -1000))
    net.join(*TWENTY)
    net.wait(3 * SECOND)
    for number, name in enumerate(TWENTY):
        net.publish(name, number)
        net.wait(20 * MS)
    net.wait(2 * SECOND)
    assert net.got["n00"] == {"m0"}
    for name in TWENTY[1:]:
        assert net.got[name] == {f"m{number}" for number in range(1, 20)}
        assert "n00" not in net.copies_from[name]


def test_a_hub_with_flood_publish_reaches_all():
    """Go's FloodPublish: a star of 20, no names in PRUNEs; all of the hub's 20 messages reach everybody."""
    net = JudgedNetwork()
    net.add(*TWENTY, score=score(), flood_publish=True)
    for name in TWENTY[1:]:
        net.connect("n00", name)
    net.join(*TWENTY)
    net.wait(2 * SECOND)
    for number in range(20):
        net.publish("n00", number)
    net.wait(100 * MS)
    assert all(len(net.got[name]) == 20 for name in TWENTY)


def test_a_star_becomes_a_network_by_the_names_in_prunes():
    """Go's StarTopology: the hub's D are 0 and it names others, theirs are 4/3/5; 10 s after joining each has more
    than one connection, and everybody's message reaches all."""
    net = JudgedNetwork()
    none = {"degree": 0, "degree_low": 0, "degree_high": 0, "degree_score": 0, "degree_out": 0}
    few = {"degree": 4, "degree_low": 3, "degree_high": 5, "degree_score": 3, "degree_out": 0}
    both = {"score": score(), "flood_publish": True, "exchange_peers": 16, "accept_exchange": True}
    net.add("hub", **none, **both)
    net.add(*TWENTY[1:], **few, **both)
    for name in TWENTY[1:]:
        net.connect("hub", name)
    net.join(*net.routers)
    net.wait(10 * SECOND)
    assert all(len(router.connected) > 1 for router in net.routers.values())
    for name in net.routers:
        net.publish(name, name)
    net.wait(5 * SECOND)
    assert all(len(net.got[name]) == 20 for name in net.routers)
    assert net.strategy("hub").mesh_peers(TOPIC) == []


def test_who_is_rated_low_is_in_backoff_with_all():
    """Go's PruneBackoffTime: ten nodes in a full mesh, heartbeat of 100 ms; within a second all others hold a backoff
    of 60 s, and ten messages of others reach all others."""
    net = JudgedNetwork()
    names = TWENTY[:10]
    sizes = {"degree": 9, "degree_low": 8, "degree_high": 12, "degree_out": 0}
    net.add(*names, score=score(), heartbeat_interval_ms=100, **sizes)
    for one, other in combinations(names, 2):
        net.connect(one, other)
    net.join(*names)
    net.wait(2 * SECOND)
    assert all(len(net.strategy(name).mesh_peers(TOPIC)) == 9 for name in names)
    for name in names[1:]:
        net.feed(name, PeerRated("n00", -1000))
    rated = net.now
    net.wait(SECOND)
    for name in names[1:]:
        backoffs = net.strategy(name).mesh.backoffs
        assert rated + 59 * SECOND <= backoffs.until(TOPIC, "n00") <= rated + 61 * SECOND
    for number, name in enumerate(names[1:]):
        net.publish(name, number)
    net.wait(SECOND)
    assert all(len(net.got[name]) == 9 for name in names[1:])
    assert net.got["n00"] == set()


def test_direct_peers_find_each_other_again():
    """Go's DirectPeers: B and C are direct, looked for every second heartbeat: connected within two seconds, messages
    of each of three nodes reach all; and again within five after their link is cut."""
    net = JudgedNetwork()
    net.add("a", "b", "c", score=score(), direct_connect_ticks=2)
    net.connect("a", "b")
    net.connect("a", "c")
    net.feed("b", DirectPeerChosen("c"))
    net.feed("c", DirectPeerChosen("b"))
    net.join("a", "b", "c")
    net.wait(2 * SECOND)
    assert ("b", "c") in net.links
    for name in "abc":
        net.publish(name, f"1{name}")
    net.wait(SECOND)
    net.cut("b", "c")
    net.wait(5 * SECOND)
    assert ("b", "c") in net.links
    for name in "abc":
        net.publish(name, f"2{name}")
    net.wait(SECOND)
    assert all(len(net.got[name]) == 6 for name in "abc")
    assert net.strategy("b").mesh_peers(TOPIC) == ["a"]


def test_honest_members_come_into_meshes_full_of_squatters():
    """Rules: KEEP-5. Go's OpportunisticGrafting: 10 honest nodes with 5 links each, 40 squatters linked to all
    of them; threshold 1, every two heartbeats, backoff 500 ms, P2 with weight 1 and cap 100. After 1000 messages, one
    each 20 ms, and 7 s every honest mesh has three honest members at least."""
    net = JudgedNetwork()
    honest = TWENTY[:10]
    first = {"first_deliveries_weight": 1, "first_deliveries_decay": 0.9997, "first_deliveries_cap": 100}
    thresholds = {"gossip": -10, "publish": -100, "graylist": -10_000, "opportunistic_graft": 1}
    net.add(
        *honest,
        score=score(first, thresholds=thresholds),
        flood_publish=True,
        prune_backoff_ms=500,
        graft_flood_ms=100,
        opportunistic_graft_ticks=2,
        opportunistic_graft_peers=2,
    )
    net.squatters |= {f"s{number:02}" for number in range(40)}
    for squatter in sorted(net.squatters):
        for name in honest:
            net.connect(squatter, name)
    dense(net, honest, 5)
    net.join(*honest)
    for squatter in sorted(net.squatters):
        for name in honest:
            net.squat(squatter, name)
    net.wait(SECOND)
    for number in range(1_000):
        net.publish(honest[number % 10], number)
        net.wait(20 * MS)
    net.wait(7 * SECOND)
    assert all(len(set(net.strategy(name).mesh_peers(TOPIC)) & set(honest)) >= 3 for name in honest)


THRESHOLDS = {"gossip": -10, "publish": -100, "graylist": -10_000, "accept_exchange": 10}


@pytest.mark.parametrize(
    ("bootstrapper", "nodes", "given", "rating"),
    [
        ("bootstrapper", "go", {"score": score(thresholds=THRESHOLDS)}, 100),
        ("bootstrapper", "js", {"score": score(thresholds=THRESHOLDS)}, 100),
        ("filecoin-bootstrap", "filecoin", {}, 2_500),
    ],
)
def test_nodes_that_know_a_bootstrapper_alone_become_a_network(bootstrapper, nodes, given, rating):
    """Rules: MESH-6, THRESHOLD-5. Nodes come one after another, and accept names only from the bootstrapper, which
    they rate high. Once the bootstrapper is gone their meshes connect them, and each message reaches all."""
    presets = ROUTERS["gossipsub"].presets
    net = JudgedNetwork()
    net.add("boot", **preset_values(presets, bootstrapper, {})[1])
    net.add(*TWENTY, **{**preset_values(presets, nodes, {})[1], **given})
    net.join("boot")
    for name in TWENTY:
        net.feed(name, PeerRated("boot", rating))
        net.connect(name, "boot")
        net.join(name)
        net.wait(200 * MS)
    net.wait(10 * SECOND)
    assert net.strategy("boot").mesh_peers(TOPIC) == []
    for name in TWENTY:
        net.cut(name, "boot")
    reached, ahead = set(), ["n00"]
    while ahead:
        name = ahead.pop()
        reached.add(name)
        ahead += sorted({*net.strategy(name).mesh_peers(TOPIC)} - reached)
    assert reached == set(TWENTY)
    for name in TWENTY:
        net.publish(name, name)
    net.wait(SECOND)
    assert all(len(net.got[name]) == 20 for name in TWENTY)
