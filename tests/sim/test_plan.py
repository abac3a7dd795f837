"""Plans: routers, topics, publications and faults of all nodes, which depend only on the scenario and its seed."""

from collections import Counter
from dataclasses import fields
from itertools import pairwise
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearsay.sim.plan.events import LinksCut, LinksHealed, NodeDown, NodeUp, Publication, TimedAction
from hearsay.sim.plan.plan import Plan, make_plan
from hearsay.sim.scenario.reading import ScenarioError
from hearsay.sim.scenario.scenario import Scenario


def plan(**document: object) -> Plan:
    return make_plan(Scenario.model_validate(document))


BUSY: dict[str, object] = {
    "network": {"nodes": 60, "degree": 4},
    "population": [{"share": 0.5, "router": {"kind": "floodsub"}}],
    "topics": [{"name": "all"}, {"name": "some", "count": 3, "subscribers_share": 0.4}],
    "workload": {"messages": 40, "arrivals": "poisson", "publishers": "any", "topic_choice": "random"},
    "timed": [
        {"at_s": 7, "node": 3, "action": "publish", "topic": "all"},
        {"at_s": 6, "node": 4, "action": "leave", "topic": "all"},
    ],
    "faults": {
        "churn": {"mean_session_s": 10},
        "crash": [{"at_s": 8, "share": 0.1}, {"at_s": 6, "share": 0.2, "rejoin_after_s": 9}],
        "partition": [{"at_s": 9, "heal_s": 12, "share": 0.3}],
        "cut": [{"at_s": 10, "share": 0.1}, {"at_s": 11, "heal_s": 13, "links": [[5, 2], [2, 5], [0, 1]]}],
    },
}


def test_the_default_scenario_is_the_script_of_simsub():
    bare = plan()
    assert [one.time_us for one in bare.publications] == [5_000_000 + i * 1_000_000 for i in range(10)]
    assert bare.end_us == 25_000_000
    assert {one.publisher for one in bare.publications} == {100}
    assert all(len(set(one.inject)) == 5 for one in bare.publications)
    assert [one.message for one in bare.publications] == list(range(10))
    assert list(bare.subscriptions) == [(0,)] * 100
    assert list(bare.router_of) == [0] * 100
    assert [len(targets) for targets in bare.dials] == [10] * 100
    assert bare.faults == ()
    assert bare.initially_down == frozenset()


def test_the_same_seed_gives_the_same_plan_and_another_seed_another():
    one, again, other = plan(**BUSY, seed=1), plan(**BUSY, seed=1), plan(**BUSY, seed=2)
    assert list(one.dials) == list(again.dials) != list(other.dials)
    for part in fields(Plan):
        assert part.name == "dials" or getattr(one, part.name) == getattr(again, part.name)
    for name in ("router_of", "subscriptions", "publications", "faults", "initially_down"):
        assert getattr(one, name) != getattr(other, name), name


def test_faults_and_populations_change_no_other_draws():
    """Faults and populations change neither topology nor subscriptions nor arrivals: draws are based on counters."""
    busy = plan(**BUSY)
    calm = plan(**{key: value for key, value in BUSY.items() if key not in ("faults", "population")})
    assert list(calm.dials) == list(busy.dials)
    assert calm.subscriptions == busy.subscriptions
    assert [one.time_us for one in calm.publications] == [one.time_us for one in busy.publications]


def test_timed_events_are_in_order_and_lengthen_the_run():
    busy = plan(**BUSY)
    assert busy.timed == (TimedAction(6_000_000, 4, join=False, topic=0),)
    published = [one for one in busy.publications if one.time_us == 7_000_000]
    assert [(one.publisher, one.topic, one.inject) for one in published] == [(3, 0, ())]
    assert [one.message for one in busy.publications] == list(range(len(busy.publications)))
    assert [one.time_us for one in busy.publications] == sorted(one.time_us for one in busy.publications)
    assert plan(timed=[{"at_s": 50, "node": 0, "action": "join"}]).end_us == 60_000_000


def test_a_timed_publish_comes_after_the_workload_s_of_the_same_time():
    both = plan(timed=[{"at_s": 5, "node": 7, "action": "publish"}], workload={"messages": 1})
    assert [one.publisher for one in both.publications] == [100, 7]


def test_without_messages_the_run_still_ends():
    assert plan(workload={"messages": 0}).end_us == 15_000_000
    assert plan(workload={"messages": 0, "arrivals": "poisson"}).end_us == 15_000_000


def test_poisson_arrivals():
    times = [one.time_us for one in plan(workload={"messages": 20_000, "arrivals": "poisson"}).publications]
    gaps = [after - before for before, after in pairwise(times)]
    assert fmean(gaps) == pytest.approx(1_000_000, rel=0.03)
    assert plan(workload={"messages": 5, "arrivals": "poisson"}).end_us == times[4] + 11_000_000


def test_topic_choice():
    topics = [{"name": "a"}, {"name": "b", "count": 2}]
    in_turn = plan(topics=topics, workload={"messages": 7})
    assert in_turn.topics == ("a", "b-0", "b-1")
    assert [one.topic for one in in_turn.publications] == [0, 1, 2, 0, 1, 2, 0]
    drawn = plan(topics=topics, workload={"messages": 3000, "topic_choice": "random"})
    assert all(900 < count < 1100 for count in Counter(one.topic for one in drawn.publications).values())


def test_topics_have_sizes_and_weights_of_their_own():
    topics = [{"name": "a", "weight": 2, "size_bytes": 7}, {"name": "b", "weight": 0}, {"name": "c", "count": 2}]
    timed = [{"at_s": 5, "node": 0, "action": "publish", "topic": "b"}]
    in_turn = plan(topics=topics, timed=timed, workload={"messages": 5, "size_bytes": 9})
    assert [(one.topic, one.size_bytes) for one in in_turn.publications] == [
        (0, 7), (1, 9), (0, 7), (2, 9), (3, 9), (0, 7),
    ]  # fmt: skip
    drawn = plan(topics=topics, workload={"messages": 3000, "topic_choice": "random"})
    counts = Counter(one.topic for one in drawn.publications)
    assert 1400 < counts[0] < 1600
    assert counts[1] == 0


def test_subscriptions():
    made = plan(
        network={"nodes": 1000},
        topics=[
            {"name": "share", "subscribers_share": 0.25},
            {"name": "count", "subscribers_count": 17},
            {"name": "listed", "subscribers": [9, 3]},
            {"name": "none", "subscribers_share": 0},
            {"name": "all", "subscribers_share": 1},
        ],
    )
    of_topic = Counter(topic for topics in made.subscriptions for topic in topics)
    assert 200 < of_topic[0] < 300
    assert of_topic[1] == 17
    assert [node for node, topics in enumerate(made.subscriptions) if 2 in topics] == [3, 9]
    assert of_topic[3] == 0
    assert of_topic[4] == 1000
    assert all(list(topics) == sorted(topics) for topics in made.subscriptions)


def test_populations_are_exact_and_resolved():
    made = plan(
        network={"nodes": 1000},
        validation={"delay_ms": 3},
        population=[
            {"share": 0.2, "router": {"kind": "floodsub"}},
            {"share": 0.8, "router": {"kind": "meshsub", "degree": 5}},
        ],
    )
    assert Counter(made.router_of) == {1: 200, 2: 800}
    assert [kind.name for kind, _ in made.routers] == ["gossipsub", "floodsub", "meshsub"]
    assert all(parameters.validate for _, parameters in made.routers)


def test_rounded_populations_never_exceed_the_nodes():
    thirds = [{"share": 0.33333, "router": {}}] * 3
    assert Counter(plan(network={"nodes": 2}, population=thirds).router_of) == {1: 1, 2: 1}


def publishers(made: Plan) -> list[int]:
    return [one.publisher for one in made.publications]


@pytest.mark.parametrize("share", [0.01, 0.3, 0.95])
def test_publishers_are_of_their_class(share: float):
    topics = [{"count": 3, "subscribers_share": share}]
    network = {"nodes": 200}
    inside = plan(topics=topics, network=network, workload={"messages": 60, "publishers": "subscribers"})
    assert inside.publications
    assert all(one.topic in inside.subscriptions[one.publisher] for one in inside.publications)
    outside = plan(topics=topics, network=network, workload={"messages": 60, "publishers": "non_subscribers"})
    assert len(outside.publications) == 60
    assert all(one.topic not in outside.subscriptions[one.publisher] for one in outside.publications)
    anyone = plan(topics=topics, network=network, workload={"messages": 4000, "publishers": "any"})
    assert len(set(publishers(anyone))) == 200


def test_a_fixed_set_of_publishers():
    for of_class in ("any", "subscribers", "non_subscribers"):
        made = plan(
            topics=[{"subscribers_share": 0.5}],
            workload={"messages": 100, "publishers": of_class, "publisher_count": 4},
        )
        assert len(set(publishers(made))) == 4


def test_timed_joins_and_leaves_count_for_publishers():
    timed = [
        {"at_s": 5, "node": 8, "action": "join"},
        {"at_s": 7, "node": 2, "action": "leave"},
        {"at_s": 9, "node": 8, "action": "leave"},
    ]
    made = plan(topics=[{"subscribers": [2]}], timed=timed, workload={"publishers": "subscribers", "messages": 30})
    by_time = {one.time_us // 1_000_000: one.publisher for one in made.publications}
    assert set(by_time) == {5, 6, 7, 8}
    assert by_time[7] == by_time[8] == 8


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (
            {"topics": [{"subscribers": []}], "workload": {"publishers": "subscribers"}},
            'workload.publishers = "subscribers": no topic has subscribers '
            "(topics.N.subscribers, subscribers_count), so no node can publish",
        ),
        (
            {"workload": {"publishers": "non_subscribers"}},
            'workload.publishers = "non_subscribers": all nodes subscribe to all topics '
            "(topics.N.subscribers, subscribers_count), so no node can publish",
        ),
    ],
)
def test_a_workload_that_no_node_can_publish_is_refused(document: dict[str, object], problem: str):
    with pytest.raises(ScenarioError) as error:
        plan(**document)
    assert error.value.problems == [problem]


def test_the_script_injects_at_no_more_nodes_than_there_are():
    assert set(plan(network={"nodes": 3}).publications[0].inject) == {0, 1, 2}
    one = plan(network={"nodes": 1}, workload={"messages": 1})
    assert one.publications == (Publication(5_000_000, 0, 0, 1, (0,), 100),)


def up_at(made: Plan, time_us: int) -> set[int]:
    """Return the nodes that are up at a time. Check that each node goes down and up in turn."""
    up = set(range(made.scenario.network.nodes)) - made.initially_down
    for fault in made.faults:
        if fault.time_us > time_us:
            break
        if isinstance(fault, NodeDown):
            up.remove(fault.node)
        elif isinstance(fault, NodeUp):
            assert fault.node not in up
            up.add(fault.node)
    return up


FAULTS = st.fixed_dictionaries(
    {
        "crash": st.lists(
            st.fixed_dictionaries(
                {"at_s": st.integers(0, 20), "share": st.sampled_from([0, 0.1, 0.5, 1])},
                optional={"rejoin_after_s": st.integers(0, 10)},
            )
            | st.fixed_dictionaries(
                {"at_s": st.integers(0, 20), "listed": st.lists(st.integers(0, 11), max_size=4)},
                optional={"rejoin_after_s": st.integers(0, 10)},
            ),
            max_size=3,
        )
    },
    optional={
        "churn": st.fixed_dictionaries(
            {"away_share": st.sampled_from([0, 0.3, 0.95]), "mean_session_s": st.integers(1, 20)},
            optional={"start_s": st.integers(0, 10), "goodbye": st.booleans()},
        )
    },
)


@given(FAULTS, st.integers(0, 99))
def test_no_node_goes_down_twice_in_a_row_and_publishers_are_up(faults: dict[str, object], seed: int):
    made = plan(seed=seed, network={"nodes": 12}, faults=faults, workload={"publishers": "any", "messages": 15})
    up_at(made, made.end_us)
    assert [fault.time_us for fault in made.faults] == sorted(fault.time_us for fault in made.faults)
    for one in made.publications:
        assert one.publisher in up_at(made, one.time_us)
    if len(made.publications) < 15:
        assert any(not up_at(made, time) for time in range(5_000_000, 20_000_000, 1_000_000))


def test_churn_is_stationary():
    made = plan(network={"nodes": 3000}, linger_s=100, faults={"churn": {"mean_session_s": 20, "goodbye": True}})
    assert len(made.initially_down) == pytest.approx(900, rel=0.08)
    for time_s in (10, 50, 100):
        assert len(up_at(made, time_s * 1_000_000)) == pytest.approx(2100, rel=0.05)
    downs = [fault for fault in made.faults if isinstance(fault, NodeDown)]
    assert all(fault.goodbye for fault in downs)
    # One in 20 of the nodes that are up goes down each second.
    assert len(downs) == pytest.approx(2100 * made.end_us / 20_000_000, rel=0.05)


def test_churn_from_a_later_start():
    made = plan(network={"nodes": 1000}, faults={"churn": {"start_s": 8}})
    assert made.initially_down == frozenset()
    assert made.faults[0].time_us == 8_000_000
    assert len(up_at(made, 7_999_999)) == 1000
    assert len(up_at(made, 8_000_000)) == pytest.approx(700, abs=50)


def test_a_crash_takes_an_exact_share_of_those_up():
    made = plan(faults={"crash": [{"at_s": 3, "share": 0.5, "rejoin_after_s": 4}, {"at_s": 5, "share": 0.5}]})
    assert [len(up_at(made, time_s * 1_000_000)) for time_s in (2, 3, 5, 6, 7, 20)] == [100, 50, 25, 25, 75, 75]
    assert not any(fault.goodbye for fault in made.faults if isinstance(fault, NodeDown))


def test_a_crash_takes_those_listed_that_are_up():
    crashes = [{"at_s": 3, "listed": [4, 7]}, {"at_s": 5, "listed": [7, 9], "rejoin_after_s": 2}]
    made = plan(faults={"crash": crashes})
    nodes = set(range(100))
    for time_s, away in ((2, set()), (3, {4, 7}), (5, {4, 7, 9}), (7, {4, 7}), (20, {4, 7})):
        assert nodes - up_at(made, time_s * 1_000_000) == away


def test_a_crashed_node_does_not_come_back_by_churn():
    made = plan(faults={"churn": {"mean_session_s": 1}, "crash": [{"at_s": 6, "share": 1}]}, linger_s=60)
    crashed = {fault.node for fault in made.faults if isinstance(fault, NodeDown) and fault.time_us == 6_000_000}
    later_up = {fault.node for fault in made.faults if isinstance(fault, NodeUp) and fault.time_us > 6_000_000}
    assert crashed
    assert not crashed & later_up


def test_partitions_and_cuts():
    made = plan(**BUSY)
    cuts = {fault.fault: fault for fault in made.faults if isinstance(fault, LinksCut)}
    healed = {fault.fault: fault.time_us for fault in made.faults if isinstance(fault, LinksHealed)}
    assert sorted(cuts) == [0, 1, 2]
    assert healed == {0: 12_000_000, 2: 13_000_000}
    assert cuts[0].side is not None
    assert len(cuts[0].side) == 18
    links = {(min(a, b), max(a, b)) for a, others in enumerate(made.dials) for b in others}
    assert cuts[1].side is None
    assert len(cuts[1].links) == (len(links) + 5) // 10
    assert set(cuts[1].links) <= links
    assert cuts[2].links == ((0, 1), (2, 5))


def test_faults_after_the_end_are_not_planned():
    made = plan(faults={"partition": [{"at_s": 20, "heal_s": 26, "share": 0.5}], "cut": [{"at_s": 30, "share": 1}]})
    assert [type(fault) for fault in made.faults] == [LinksCut]
