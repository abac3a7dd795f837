"""Facts about peers that routers get: the side that dialled, the address, and the application's rating."""

from __future__ import annotations

from ipaddress import IPv6Network, ip_address

import pytest

from hearsay.core.flooding import Floodsub, FloodsubParameters
from hearsay.core.language.events import PeerConnected, PeerRated
from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.mesh.standing import Standing
from hearsay.core.registry import RouterKind
from hearsay.core.scores.score_parameters import ScoreSet
from hearsay.sim.plan.network import addresses
from hearsay.sim.plan.plan import make_plan
from hearsay.sim.scenario.network import Addresses
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import Simulation


class ScoringFloodsub(Floodsub):
    """Floodsub with scores, so that it gets ratings."""

    def attach(self, shell):
        super().attach(shell)
        self.scoring = Standing(GossipsubParameters(score=ScoreSet()), shell)


SCORING_FLOODSUB = RouterKind("scoring_floodsub", FloodsubParameters, ScoringFloodsub, {"r1": {}})


class Events:
    """Records the connections and ratings that the routers of a run get."""

    def __init__(self):
        self.connected = []
        self.rated = []
        self.rated_us = {}

    def node_started(self, node, now): ...

    def node_stopped(self, node, now): ...

    def finished(self, run): ...

    def handled(self, node, event, actions, now):
        if isinstance(event, PeerConnected):
            self.connected.append((node.id, event))
            assert self.rated_us.pop((node.id, event.peer), now) == now, "rated and connected at different times"
        elif isinstance(event, PeerRated):
            self.rated.append((node.id, event.peer, event.rating))
            self.rated_us[node.id, event.peer] = now


def watched(router=f"{__name__}:SCORING_FLOODSUB", **keys) -> Events:
    settings = {"network.nodes": 20, "network.degree": 3, "workload.messages": 2, "linger_s": 3, **keys}
    overrides = [(key.replace("__", "."), str(value)) for key, value in settings.items()]
    simulation = Simulation(load_scenario(None, "r1", overrides, router=router))
    events = simulation.engine.observer = Events()
    simulation.run()
    return events


def pairs(events: Events) -> dict[tuple[int, int], list[bool]]:
    """Return for each pair of node and peer whether the node dialled, for all of its connections in order."""
    found: dict[tuple[int, int], list[bool]] = {}
    for node, event in events.connected:
        found.setdefault((node, event.peer), []).append(event.outbound)
    return found


def test_the_node_that_draws_an_edge_dials():
    dials = make_plan(load_scenario(None, "r1", [("network.nodes", "20"), ("network.degree", "3")])).dials
    sides = pairs(watched())
    assert len(sides) > 60
    for (node, peer), (outbound,) in sides.items():
        assert sides[peer, node] == [not outbound]
        both = peer in dials[node] and node in dials[peer]
        assert outbound == (node < peer if both else peer in dials[node])


CRASH = "[{at_s = 1, share = 0.3, rejoin_after_s = 4}]"
CUT = "[{at_s = 1, heal_s = 4, share = 0.3}]"


@pytest.mark.parametrize("faults", [{"faults.crash": CRASH}, {"faults.cut": CUT}])
def test_after_a_fault_one_side_dialled_and_the_other_did_not(faults):
    sides = pairs(watched(**faults))
    again = {pair: how for pair, how in sides.items() if len(how) > 1 or pair not in pairs(watched())}
    assert again
    for (node, peer), how in again.items():
        assert how == [not outbound for outbound in sides[peer, node]]


def test_only_one_side_of_an_episub_connection_dialled():
    sides = pairs(watched("episub"))
    once = {pair: how for pair, how in sides.items() if len(how) == 1 == len(sides.get((pair[1], pair[0]), ()))}
    assert len(once) > 20
    assert all(how != once[peer, node] for (node, peer), how in once.items())


def test_no_node_has_an_address_unless_the_scenario_says_so():
    assert {event.address for _, event in watched().connected} == {""}


@pytest.mark.parametrize("form", ["ipv4", "ipv6"])
def test_nodes_share_addresses_as_configured(form):
    at = addresses(Addresses.model_validate({"nodes_per_address": 4, "shared": [[1, 9], [8]], "form": form}), 12)
    first, second, third = at[0], at[4], at[11]
    assert [at[node] for node in (2, 3, 5, 10)] == [first, first, second, third]
    assert at[1] == at[9]
    assert len({first, second, third, at[1], at[8]}) == 5
    assert ip_address(first).version == int(form[-1])


def test_prefixes_are_shared_and_addresses_are_not():
    at = addresses(Addresses.model_validate({"nodes_per_address": 4, "form": "ipv6_prefix"}), 12)
    assert len(set(at)) == 12
    prefixes = [IPv6Network((address, 64), strict=False) for address in at]
    assert len(set(prefixes)) == 3
    assert prefixes[0] == prefixes[3] != prefixes[4]


def test_peers_see_the_address():
    events = watched(addresses__shared="[[2, 3]]")
    seen = {event.peer: event.address for _, event in events.connected}
    assert seen[2] == seen[3] == "10.0.0.1"
    assert {address for peer, address in seen.items() if peer not in (2, 3)} == {""}


def test_of_several_ratings_the_last_that_fits_holds():
    ratings = "[{rating = 1.5}, {rating = -2, listed = [4, 5]}, {rating = 0.25, listed = [5], by = [0]}]"
    events = watched(ratings=ratings)
    assert len(events.rated) == len(events.connected)
    for node, peer, rating in events.rated:
        assert rating == (0.25 if (node, peer) == (0, 5) else -2 if peer in (4, 5) else 1.5)


def test_a_share_is_exact_and_drawn_by_the_seed():
    rated = [
        frozenset(peer for _, peer, _ in watched(ratings="[{rating = 3, share = 0.25}]", seed=seed).rated)
        for seed in (1, 1, 2)
    ]
    assert [len(some) for some in rated] == [5, 5, 5]
    assert rated[0] == rated[1] != rated[2]


def test_a_population_is_rated():
    population = '[{share = 0.3, router = {kind = "randomsub"}}]'
    events = watched(population=population, ratings="[{rating = 3, population = 0}]")
    overrides = [("network.nodes", "20"), ("population", population)]
    runs = make_plan(load_scenario(None, "r1", overrides)).router_of
    assert {peer for _, peer, _ in events.rated} == {node for node in range(20) if runs[node] == 1}
    assert all(runs[node] == 0 for node, _, _ in events.rated)  # randomsub rates no peer


def test_routers_without_scores_get_no_ratings():
    assert watched("gossipsub", ratings="[{rating = 3}]").rated == []


def test_addresses_and_ratings_change_no_trace_of_routers_without_scores():
    plain = Scenario.model_validate({"network": {"nodes": 20}})
    with_identities = {"network": {"nodes": 20}, "addresses": {"nodes_per_address": 2}, "ratings": [{"rating": -9}]}
    hashes = {Simulation(one).run().summary.trace_hash for one in (plain, Scenario.model_validate(with_identities))}
    assert len(hashes) == 1
