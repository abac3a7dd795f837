"""Differences of implementations from v1.1: each parameter off and on, by the presets that choose it."""

from __future__ import annotations

import pytest
from router_driver import MS, SECOND, TOPIC, RouterDriver, dropped, message, receivers, score_table, sent

from hearsay.core.language.actions import PeerGrafted, PeerPruned, Reason
from hearsay.core.language.events import DirectPeerChosen
from hearsay.core.language.rpc import Graft, IHave, IWant, Prune, Subscription
from hearsay.core.registry import ROUTERS
from hearsay.core.shell.parameters import preset_values

PRESETS = ROUTERS["gossipsub"].presets
MISBEHAVIOUR = {"misbehaviour_weight": -1, "misbehaviour_decay": 0.99, "decay_interval_ms": 3_600_000}


def preset_driver(name: str, **given) -> RouterDriver:
    """Return a router of a preset in the topic `t`. Application scores and misbehaviour count; the first heartbeat is
    after ten minutes."""
    values = {**preset_values(PRESETS, name, {})[1], "first_heartbeat_ms": 600_000}
    return RouterDriver(**{**values, "score": score_table(**MISBEHAVIOUR), **given})


def named(actions) -> list[tuple[object, set[object]]]:
    return [(peer, {each.peer for each in prune.peers}) for peer, prune in sent(actions, Prune)]


@pytest.mark.parametrize(
    ("name", "grafted", "pruned"),
    [
        ("v1.1", False, ["p"]),
        ("spec", False, ["p"]),
        ("go", True, []),
        ("rust", False, []),
        ("js", True, []),
        ("nim", True, []),
        ("jvm", True, []),
    ],
)
def test_a_graft_before_the_subscription(name, grafted, pruned):
    """Rules: GRAFT-3."""
    driver = preset_driver(name)
    driver.connect("p", topics=())
    actions = driver.graft("p")
    assert driver.mesh() == (["p"] if grafted else [])
    assert receivers(actions, Prune) == pruned
    assert dropped(actions) == ([] if grafted else [("p", "GRAFT", 1, Reason.NOT_A_SUBSCRIBER)])


@pytest.mark.parametrize("name", ["go", "rust", "js", "nim", "jvm"])
def test_a_graft_before_the_subscription_in_a_backoff_is_misbehaviour(name):
    """Rules: BACKOFF-7. The backoff is checked before the subscription."""
    driver = preset_driver(name)
    driver.connect("p", topics=())
    driver.router.strategy.mesh.obey_backoff("p", Prune(TOPIC, 60))
    assert receivers(driver.graft("p"), Prune) == ["p"]
    assert driver.score("p") < 0


def test_a_member_without_a_subscription_leaves_with_its_connection():
    driver = preset_driver("go")
    driver.connect("p", topics=())
    driver.graft("p")
    driver.disconnect("p")
    assert driver.mesh() == []
    assert not driver.router.peers.in_topic(TOPIC)


@pytest.mark.parametrize("leaves", [True, False])
def test_a_member_that_never_subscribed_may_unsubscribe(leaves):
    driver = preset_driver("js")
    driver.connect("p", topics=())
    driver.graft("p")
    driver.receive("p", Subscription(TOPIC, not leaves))
    assert driver.mesh() == ([] if leaves else ["p"])


@pytest.mark.parametrize(
    ("name", "in_backoff"), [("go", False), ("rust", True), ("js", False), ("nim", True), ("jvm", False)]
)
def test_unsubscribing_of_a_member_starts_a_backoff_of_a_minute(name, in_backoff):
    """Rules: BACKOFF-5."""
    driver = preset_driver(name)
    driver.connect("p", "q")
    driver.graft("p")
    assert receivers(driver.receive("p", Subscription(TOPIC, False)), Prune) == []
    driver.receive("q", Subscription(TOPIC, False))
    driver.wait(55 * SECOND)
    for peer in ("p", "q"):
        driver.receive(peer, Subscription(TOPIC, True))
    driver.graft("p")
    assert (driver.score("p") < 0) is in_backoff
    driver.graft("q")
    assert driver.score("q") == 0


@pytest.mark.parametrize(("after", "grafted"), [(59_999, False), (60_000, True)])
def test_the_backoff_after_unsubscribing_ends_after_a_minute(after, grafted):
    driver = preset_driver("rust", graft_on_subscribe=False)
    driver.connect("p")
    driver.graft("p")
    driver.receive("p", Subscription(TOPIC, False))
    driver.wait(after * MS)
    driver.receive("p", Subscription(TOPIC, True))
    driver.graft("p")
    assert driver.mesh() == (["p"] if grafted else [])


@pytest.mark.parametrize(("name", "in_backoff"), [("go", False), ("rust", False), ("jvm", True)])
def test_a_prune_for_a_topic_that_is_not_joined(name, in_backoff):
    """Rules: BACKOFF-5."""
    driver = preset_driver(name)
    driver.connect("p", topics=(TOPIC, "u"))
    driver.receive("p", Prune("u", 60))
    assert driver.strategy.mesh.backoffs.holds("u", "p", driver.now) is in_backoff


@pytest.mark.parametrize(
    ("name", "median", "grafted"),
    [
        # Two members with 1 and 3, others with 1, 2, 2.5 and 4 in the order of their ids.
        ("go", 3, {"f"}),
        ("js", 3, {"f"}),
        ("rust", 2, {"f", "e"}),
        ("nim", 1, {"c", "d"}),
        ("jvm", 2, {"e", "f"}),
    ],
)
def test_peers_that_a_poor_mesh_grafts(name, median, grafted):
    """Rules: KEEP-5."""
    driver = preset_driver(
        name,
        degree=2,
        degree_low=1,
        degree_out=0,
        degree_score=0,
        opportunistic_graft_ticks=1,
        first_heartbeat_ms=1_000,
        graft_on_subscribe=False,
        score=score_table(thresholds={"opportunistic_graft": 100}),
    )
    driver.connect("a", "b", "c", "d", "e", "f")
    driver.graft("a", "b")
    for peer, rating in {"a": 1, "b": 3, "c": 1, "d": 2, "e": 2.5, "f": 4}.items():
        driver.rate(rating, peer)
    driver.beat()
    assert set(driver.mesh()) - {"a", "b"} == grafted, median


def test_of_several_better_peers_the_first_are_grafted():
    """Rules: KEEP-5. The draw of go differs by seed; jvm and nim take the first ones whatever the seed is."""
    found = {}
    for name in ("go", "nim", "jvm"):
        for seed in range(12):
            driver = preset_driver(
                name,
                seed=seed,
                degree=2,
                degree_low=1,
                degree_out=0,
                degree_score=0,
                opportunistic_graft_ticks=1,
                first_heartbeat_ms=1_000,
                score=score_table(thresholds={"opportunistic_graft": 100}),
            )
            driver.connect("a", "b", *(f"p{number}" for number in range(8)))
            driver.graft("a", "b")
            driver.rate(1, *(f"p{number}" for number in range(8)))
            driver.beat()
            found.setdefault(name, set()).add(tuple(sorted({*driver.mesh()} - {"a", "b"})))
    assert found["nim"] == found["jvm"] == {("p0", "p1")}
    assert len(found["go"]) > 3


@pytest.mark.parametrize(
    ("name", "pruned", "score"), [("go", ["p"], 0), ("rust", [], 0), ("js", ["p"], 0), ("nim", ["p"], -0.01)]
)
def test_the_graft_of_a_direct_peer(name, pruned, score):
    """Rules: GRAFT-8. nim counts a tenth of misbehaviour."""
    driver = preset_driver(name)
    driver.connect("p")
    driver.feed(DirectPeerChosen("p", True))
    assert receivers(driver.graft("p"), Prune) == pruned
    assert driver.score("p") == pytest.approx(score)


@pytest.mark.parametrize(("name", "stays"), [("go", True), ("js", True), ("jvm", False)])
def test_the_graft_of_a_member_of_a_full_mesh(name, stays):
    """Rules: GRAFT-4, GRAFT-6."""
    driver = preset_driver(name)
    members = [f"p{number:02}" for number in range(12)]
    driver.connect(*members)
    driver.graft(*members)
    actions = driver.graft("p05")
    assert ("p05" in driver.mesh()) is stays
    assert receivers(actions, Prune) == ([] if stays else ["p05"])
    assert [action.peer for action in actions if isinstance(action, PeerPruned)] == ([] if stays else ["p05"])


@pytest.mark.parametrize("reason", ["room", "outbound"])
def test_a_member_stays_if_there_is_room_or_the_router_dialled_it(reason):
    """Rules: GRAFT-4."""
    driver = preset_driver("jvm", degree_high=12 if reason == "room" else 6)
    members = [f"p{number:02}" for number in range(6)]
    driver.connect(*members, outbound=reason == "outbound")
    driver.graft(*members)
    actions = driver.graft("p05")
    assert receivers(actions, Prune) == []
    assert not [action for action in actions if isinstance(action, (PeerGrafted, PeerPruned))]
    assert len(driver.mesh()) == 6


@pytest.mark.parametrize(("name", "names"), [("go", set()), ("jvm", {"q", "r"})])
def test_peers_named_by_the_prune_for_a_graft_in_a_backoff(name, names):
    """Rules: MESH-5."""
    driver = preset_driver(name, exchange_peers=16)
    driver.connect("p", "q", "r")
    driver.receive("p", Prune(TOPIC, 60))
    assert named(driver.graft("p")) == [("p", names)]


@pytest.mark.parametrize(("name", "names"), [("go", set()), ("jvm", {"q", "r"})])
def test_peers_named_by_the_prune_of_a_member_with_a_negative_score(name, names):
    """Rules: KEEP-1."""
    driver = preset_driver(name, exchange_peers=16, first_heartbeat_ms=1_000)
    driver.connect("p", "q", "r")
    driver.graft("p")
    driver.rate(-1, "p")
    pruned = [each for each in named(driver.beat()) if each[0] == "p"]
    assert pruned == [("p", names)]


@pytest.mark.parametrize(("name", "kinds"), [("go", ["IHAVE", "GRAFT"]), ("jvm", ["GRAFT", "IHAVE"])])
def test_the_order_in_which_parts_of_an_rpc_are_handled(name, kinds):
    driver = preset_driver(name)
    driver.connect("p")
    found = dropped(driver.receive("p", IHave("elsewhere", ("m",)), Graft("elsewhere")))
    assert [kind for _, kind, _, _ in found] == kinds


@pytest.mark.parametrize(("name", "accepted"), [("go", 20), ("rust", 20), ("js", 20), ("jvm", 10)])
def test_the_ihaves_of_one_rpc(name, accepted):
    """Rules: GOSSIP-14. jvm counts IHAVEs, of joined topics only; others count RPCs."""
    driver = preset_driver(name)
    driver.connect("p")
    elsewhere = [IHave("elsewhere", (f"e{number}",)) for number in range(5)]
    actions = driver.receive("p", *elsewhere, *(IHave(TOPIC, (f"m{number:02}",)) for number in range(20)))
    assert len({one for _, iwant in sent(actions, IWant) for one in iwant.ids}) == accepted
    refused = [count for _, kind, count, reason in dropped(actions) if (kind, reason) == ("IHAVE", Reason.OVER_LIMIT)]
    assert sum(refused) == 20 - accepted


@pytest.mark.parametrize(("name", "rpcs"), [("go", 10), ("jvm", 10)])
def test_ihaves_of_many_rpcs(name, rpcs):
    """Rules: GOSSIP-14. The next heartbeat starts a new count."""
    driver = preset_driver(name, first_heartbeat_ms=1_000)
    driver.connect("p")
    asked = [len(sent(driver.receive("p", IHave(TOPIC, (f"m{number}",))), IWant)) for number in range(12)]
    assert sum(asked) == rpcs
    driver.beat()
    assert len(sent(driver.receive("p", IHave(TOPIC, ("again",))), IWant)) == 1


@pytest.mark.parametrize(("name", "topics"), [("go", 3), ("js", 2)])
def test_the_ids_of_all_ihaves_of_an_rpc(name, topics):
    """Rules: GOSSIP-8. `max_ids_per_ihave` bounds the ids of all IHAVEs together in js, of each IHAVE in others."""
    joined = ("t1", "t2", "t3")
    driver = preset_driver(name, joined=joined, max_ids_per_ihave=4, max_ids_per_iwant=100)
    driver.connect("p", topics=joined)
    for _ in range(2):
        parts = [IHave(topic, tuple(f"{topic}-{number}" for number in range(3))) for topic in joined]
        actions = driver.receive("p", IHave("elsewhere", ("e1", "e2", "e3")), *parts)
        asked = {one for _, iwant in sent(actions, IWant) for one in iwant.ids}
        assert {one.partition("-")[0] for one in asked} == set(joined[:topics])
        assert len(asked) == (9 if topics == 3 else 4)


@pytest.mark.parametrize(("name", "broken"), [("go", 0), ("rust", 0), ("jvm", 1)])
@pytest.mark.parametrize("again", [False, True])
def test_copies_that_keep_a_promise(name, broken, again):
    """Rules: PROMISE-2. In jvm only a copy of the asked peer keeps the promise, and it may come second."""
    driver = preset_driver(name, first_heartbeat_ms=1_000)
    driver.connect("p", "q")
    driver.receive("p", IHave(TOPIC, ("m",)))
    driver.receive("q", message("m"))
    if again:
        driver.receive("p", message("m"))
    driver.beat(6)
    assert driver.score("p") == (-1 if broken and not again else 0)


@pytest.mark.parametrize(("name", "beats"), [("go", 75), ("js", 75), ("rust", 61)])
def test_when_a_peer_is_grafted_again(name, beats):
    """Rules: BACKOFF-2. go and js graft only after they delete the backoff, which each fifteenth heartbeat does."""
    driver = preset_driver(name, first_heartbeat_ms=1_000)
    driver.connect("p")
    driver.graft("p")
    driver.receive("p", Prune(TOPIC, 60))
    driver.beat(beats - 1)
    assert driver.mesh() == []
    driver.beat()
    assert driver.mesh() == ["p"]
