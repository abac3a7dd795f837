"""Partial messages of v1.3: the expectations and numbers of go-libp2p-pubsub's tests, and the state of groups."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from partial_network import EXTENSION_ONLY, NO_EXTENSION, TOPIC, Network
from router_driver import RouterDriver, dropped, score_table

from hearsay.core.language.actions import DeliverPartial, Reason, RemindOfPartial, Send
from hearsay.core.language.events import (
    Join,
    Leave,
    PartialFeedback,
    PartialsChosen,
    PartsFor,
    PeerConnected,
    PublishPartial,
    RpcReceived,
    SendFailed,
)
from hearsay.core.language.rpc import (
    MESHSUB_12,
    MESHSUB_13,
    Control,
    Features,
    Graft,
    IHave,
    IWant,
    Message,
    Partial,
    PartialUse,
    Rpc,
    Subscription,
)
from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.mesh.partials import MAX_GROUPS, Groups
from hearsay.core.rules.partial_rules import ACCEPTED
from hearsay.core.shell.contract import UsageError
from hearsay.partial import counted, group_named

SUPPORTS, REQUESTS, NONE = PartialUse.SUPPORTS, PartialUse.REQUESTS, PartialUse.NONE
USES = (NO_EXTENSION, EXTENSION_ONLY, SUPPORTS, REQUESTS)
GROUP = group_named(7)
NO_MESH = dict.fromkeys(("degree", "degree_low", "degree_high", "degree_out", "degree_score"), 0)


class RecordingApplication:
    """An application that sends parts and metadata once to each peer, and records the peers it was asked about."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def parts_for(self, topic, group, peer):
        self.asked.append(peer)
        if peer.note:
            return PartsFor(note=True)
        return PartsFor(b"parts", None if peer.sent else b"metadata", True)


def create_driver(use, **given):
    """Return the driver of a router that uses partial messages of the topic, and its application."""
    application = RecordingApplication()
    driver = RouterDriver(joined=(), partial_messages=True, **given)
    driver.feed(PartialsChosen(TOPIC, use, application))
    driver.feed(Join(TOPIC))
    return driver, application


PARTIAL_FEATURES = Features(partial_messages=True)


def connect_peer(driver, peer, use, features=PARTIAL_FEATURES, mesh=True):
    driver.feed(PeerConnected(peer, MESHSUB_13))
    control = Control(graft=(Graft(TOPIC),) if mesh else (), features=(features,))
    driver.feed(RpcReceived(peer, Rpc((Subscription(TOPIC, True, use),), (), control)))


def partials(actions):
    return [
        (action.peer, action.rpc.partial.parts, action.rpc.partial.metadata)
        for action in actions
        if isinstance(action, Send) and action.rpc.partial is not None
    ]


def receive_partial(driver, peer, group, **fields):
    return driver.feed(RpcReceived(peer, Rpc(partial=Partial(TOPIC, group, **fields))))


@pytest.mark.parametrize("publisher", ["a", "b"])
@pytest.mark.parametrize("use_b", USES)
@pytest.mark.parametrize("use_a", USES)
def test_any_two_kinds_of_nodes_exchange_a_message_once(use_a, use_b, publisher):
    """Rules: PARTIAL-2, PARTIAL-3. go: PairwiseInteractionWithPartialMessages."""
    network = Network(a=use_a, b=use_b)
    network.connect(("a", "b"))
    network.beat(2)
    network.add(publisher, GROUP)
    network.beat(2)
    other = "b" if publisher == "a" else "a"
    assert network.nodes[other].whole == [GROUP]
    publisher_use, other_use = (use_a, use_b) if publisher == "a" else (use_b, use_a)
    by_parts = publisher_use in (SUPPORTS, REQUESTS) and other_use == REQUESTS
    assert (network.full_messages(publisher, other) == 0) is by_parts
    assert any(parts for parts, _ in network.partials(publisher, other)) is by_parts


@pytest.mark.parametrize(
    ("own_use", "peer_use", "features", "expected"),
    [
        (REQUESTS, REQUESTS, True, (b"parts", b"metadata")),
        (SUPPORTS, REQUESTS, True, (b"parts", b"metadata")),
        (REQUESTS, SUPPORTS, True, (None, b"metadata")),
        (SUPPORTS, SUPPORTS, True, None),
        (REQUESTS, NONE, True, None),
        (REQUESTS, REQUESTS, False, None),
    ],
)
def test_the_uses_of_both_peers_decide_what_is_sent(own_use, peer_use, features, expected):
    """Rules: PARTIAL-2, PARTIAL-3, PARTIAL-5, EXT-3."""
    driver, application = create_driver(own_use)
    connect_peer(driver, "p", peer_use, Features(partial_messages=features))
    assert partials(driver.feed(PublishPartial(TOPIC, GROUP))) == ([("p", *expected)] if expected else [])
    gets_messages = not (expected and expected[0])
    assert [rpc.messages != () for rpc in sent_rpcs(driver.publish("m1"))] == ([True] if gets_messages else [])
    assert [peer.requests for peer in application.asked] == ([expected[0] is not None] if expected else [])


@pytest.mark.parametrize(
    ("supporters_told", "peer_use", "expected"),
    [
        ("by_requesters", SUPPORTS, None),
        ("by_all", SUPPORTS, (None, b"metadata")),
        ("by_requesters", REQUESTS, (b"parts", b"metadata")),
        ("by_all", REQUESTS, (b"parts", b"metadata")),
        ("by_all", NONE, None),
    ],
)
def test_a_supporter_sends_metadata_to_supporters_only_by_parameter(supporters_told, peer_use, expected):
    """Rule: PARTIAL-2. Between supporters go sends nothing, rust metadata. Both send full messages and no parts."""
    driver, _ = create_driver(SUPPORTS, supporters_told=supporters_told)
    connect_peer(driver, "p", peer_use)
    assert partials(driver.feed(PublishPartial(TOPIC, GROUP))) == ([("p", *expected)] if expected else [])
    assert [rpc.messages != () for rpc in sent_rpcs(driver.publish("m1"))] == ([True] if peer_use != REQUESTS else [])


@pytest.mark.parametrize("peer_use", [SUPPORTS, NONE])
def test_a_peer_that_sent_a_partial_message_gets_metadata_of_the_group(peer_use):
    """Rule: PARTIAL-5. A peer that requests no parts gets metadata once, and only of the group of its message."""
    driver, _ = create_driver(SUPPORTS)
    connect_peer(driver, "p", peer_use, mesh=False)
    receive_partial(driver, "p", GROUP, parts=b"x")
    assert partials(driver.feed(PublishPartial(TOPIC, GROUP))) == [("p", None, b"metadata")]
    assert partials(driver.feed(PublishPartial(TOPIC, GROUP))) == []
    assert partials(driver.feed(PublishPartial(TOPIC, group_named(8)))) == []


def test_a_peer_that_left_the_topic_gets_only_groups_of_which_it_sent_something():
    """Rule: PARTIAL-5."""
    driver, _ = create_driver(REQUESTS)
    for peer in ("p", "q"):
        connect_peer(driver, peer, REQUESTS)
    driver.feed(PublishPartial(TOPIC, GROUP))
    receive_partial(driver, "q", GROUP, metadata=b"x")
    for peer in ("p", "q"):
        driver.receive(peer, Subscription(TOPIC, False))
    driver.strategy.partials.groups.not_sent(TOPIC, GROUP, "q")
    assert partials(driver.feed(PublishPartial(TOPIC, GROUP))) == [("q", None, b"metadata")]


def test_an_application_is_reminded_of_its_groups_as_long_as_they_are_remembered():
    """Rule: PARTIAL-10. There are no reminders of groups that only a peer named, nor in a topic that was left."""
    driver, _ = create_driver(REQUESTS)
    connect_peer(driver, "p", REQUESTS)
    receive_partial(driver, "p", group_named(8), metadata=b"x")
    driver.feed(PublishPartial(TOPIC, GROUP))
    reminders = [[action for action in driver.beat() if isinstance(action, RemindOfPartial)] for _ in range(5)]
    assert reminders == [[RemindOfPartial(TOPIC, GROUP)]] * 3 + [[], []]
    driver.feed(PublishPartial(TOPIC, GROUP))
    driver.feed(Leave(TOPIC))
    assert not any(isinstance(action, RemindOfPartial) for action in driver.beat())


def sent_rpcs(actions):
    return [action.rpc for action in actions if isinstance(action, Send)]


def test_a_requester_accepts_full_messages_and_gets_them_by_iwant():
    """Rule: PARTIAL-3."""
    driver, _ = create_driver(REQUESTS)
    connect_peer(driver, "p", REQUESTS)
    message = Message("m1", TOPIC, b"x", "author")
    assert any(
        getattr(action, "message", None) == message for action in driver.feed(RpcReceived("p", Rpc((), (message,))))
    )
    driver.publish("m2")
    actions = driver.feed(RpcReceived("p", Rpc(control=Control(iwant=(IWant(("m2",)),)))))
    assert [rpc.messages[0].id for rpc in sent_rpcs(actions)] == ["m2"]


def test_a_ring_with_one_node_without_support_exchanges_a_message():
    """Rules: PARTIAL-2, PARTIAL-7. go: PeerSupportsPartialMessages: n0 requests, n1 lacks support, others support."""
    network = Network(n0=REQUESTS, n1=NO_EXTENSION, n2=SUPPORTS, n3=SUPPORTS, n4=SUPPORTS)
    network.connect(("n0", "n1"), ("n1", "n2"), ("n2", "n3"), ("n3", "n4"), ("n4", "n0"))
    network.beat(3)
    network.add("n0", GROUP, range(0))
    assert network.partials("n0", "n4") == [(False, True)]
    network.add("n4", GROUP)
    assert network.partials("n4", "n0")[-1][0]
    assert network.nodes["n0"].whole == [GROUP]
    assert network.nodes["n1"].whole == [GROUP]


def test_peers_that_exchange_parts_get_no_idontwant():
    """Rule: PARTIAL-4. go: NoIDONTWANTWithPartialMessage. Three nodes in a line: supports, requests, no extension."""
    network = Network(n0=SUPPORTS, n1=REQUESTS, n2=NO_EXTENSION)
    network.connect(("n0", "n1"), ("n1", "n2"))
    network.beat(3)
    network.publish("n2", GROUP, b"".join(counted(GROUP, range(8)).values()))
    assert network.idontwants("n1") == []
    assert [network.nodes[name].whole for name in ("n0", "n1")] == [[GROUP], [GROUP]]


def test_gossip_reaches_a_peer_outside_the_mesh_once():
    """Rule: PARTIAL-6. go: GossipDelivery, EmitGossipWhenAllPeersPartial. The publication sends nothing. The next
    heartbeat sends parts and metadata, although there is no IHAVE; the one after it sends nothing."""
    driver, application = create_driver(REQUESTS, full_mesh="refuse", **NO_MESH)
    connect_peer(driver, "p", REQUESTS, mesh=False)
    assert driver.mesh() == []
    assert partials(driver.feed(PublishPartial(TOPIC, GROUP))) == []
    assert partials(driver.beat()) == [("p", b"parts", b"metadata")]
    assert [peer.gossip for peer in application.asked] == [True]
    assert partials(driver.beat()) == []


def test_thirty_routers_that_all_request_parts_gossip_about_them():
    """Rule: PARTIAL-6. go: PartialMessagesEmitGossipWhenAllPeersPartial: thirty nodes, each of which dials ten. No
    full message is sent, so there is no IHAVE; applications are still asked for gossip."""
    names = [f"n{number:02}" for number in range(30)]
    network = Network(**dict.fromkeys(names, REQUESTS))
    chance = Random(1)
    dialled = [(one, other) for one in names for other in chance.sample(names, 10) if one != other]
    network.connect(*sorted({(min(link), max(link)) for link in dialled}))
    network.beat(2)
    assert max(len(node.router.strategy.mesh.topics[TOPIC]) for node in network.nodes.values()) <= 12
    network.add("n00", GROUP)
    network.beat(5)
    assert [node.whole for node in network.nodes.values()] == [[GROUP]] * 30
    assert not any(rpc.messages for _, _, rpc in network.sent)
    assert sum(node.application.gossip_requests for node in network.nodes.values()) > 0


@pytest.mark.parametrize("in_mesh", [True, False])
def test_a_partial_message_that_could_not_be_sent_is_sent_again(in_mesh):
    """Rule: PARTIAL-8. A member gets it at the next publication, another peer with the next gossip."""
    driver, _ = create_driver(REQUESTS, full_mesh="refuse", **({} if in_mesh else NO_MESH))
    connect_peer(driver, "p", REQUESTS, mesh=in_mesh)
    first = [*driver.feed(PublishPartial(TOPIC, GROUP)), *driver.beat()]
    assert partials(first) == [("p", b"parts", b"metadata")]
    (sent,) = [rpc for rpc in sent_rpcs(first) if rpc.partial is not None]
    driver.feed(SendFailed("p", sent))
    again = driver.feed(PublishPartial(TOPIC, GROUP)) if in_mesh else driver.beat()
    assert partials(again) == [("p", b"parts", b"metadata")]
    driver.feed(SendFailed("p", Rpc(partial=Partial(TOPIC, b"unknown", b"parts"))))


def test_supporters_get_ihave_and_requesters_do_not():
    """Rule: PARTIAL-6."""
    driver, _ = create_driver(SUPPORTS, full_mesh="refuse", **NO_MESH)
    connect_peer(driver, "p", REQUESTS, mesh=False)
    connect_peer(driver, "q", SUPPORTS, mesh=False)
    driver.publish("m1")
    actions = driver.beat()
    ihave_receivers = [
        action.peer for action in actions if isinstance(action, Send) and action.rpc.control is not None
    ]
    assert ihave_receivers == ["q"]
    assert any(isinstance(part, IHave) for rpc in sent_rpcs(actions) if rpc.control for part in rpc.control.parts())


def test_later_metadata_replaces_earlier_metadata():
    """Rule: PARTIAL-8."""
    driver, application = create_driver(REQUESTS)
    connect_peer(driver, "p", REQUESTS)
    for metadata in (b"first", b"second", None):
        [action] = receive_partial(driver, "p", GROUP, parts=b"x", metadata=metadata)
        assert action == DeliverPartial(Partial(TOPIC, GROUP, b"x", metadata), "p")
    driver.feed(PublishPartial(TOPIC, GROUP, ("p",)))
    assert [peer.received for peer in application.asked] == [b"second"]


def test_groups_that_peers_open_are_counted():
    """Rule: PARTIAL-9. go: PeerInitiatedCounter, with limits of 4 in a topic and 2 for a peer."""
    groups = Groups(GossipsubParameters.from_mapping({"max_peer_groups": 4, "max_groups_per_peer": 2}))
    opened = [groups.of_peer("t", bytes((number,)), peer) for number, peer in enumerate("ppp")]
    assert [group is not None for group in opened] == [True, True, False]
    assert groups.refusal("t", "q") == ACCEPTED
    for number, peer in enumerate("qr", 10):
        group = groups.of_peer("t", bytes((number,)), peer)
        assert group is not None
        group.notes_of(peer)
    assert groups.of_peer("t", b"one more", "s") is None
    assert groups.refusal("t", "s") == Reason.THROTTLED
    assert groups.of_peer("t", b"\x00", "s") is opened[0]
    for peer in "pqr":
        groups.remove_peer(peer)
    assert (groups.opened("t"), len(groups)) == (0, 0)


@pytest.mark.parametrize("by_peer", [True, False])
def test_groups_are_forgotten_after_their_heartbeats(by_peer):
    """Rule: PARTIAL-8. As in go: the heartbeat after the third one forgets them."""
    groups = Groups(GossipsubParameters())
    group = groups.of_peer("t", GROUP, "p") if by_peer else groups.publish("t", GROUP)
    assert group is not None
    group.notes_of("p")
    for _ in range(3):
        groups.beat()
        assert len(groups) == 1
    groups.beat()
    assert len(groups) == 0


def test_partial_messages_beyond_the_limits_are_dropped():
    """Rules: PARTIAL-7, PARTIAL-9."""
    driver, _ = create_driver(REQUESTS, max_groups_per_peer=1, max_peer_groups=2, max_metadata_bytes=4)
    for peer in ("p", "q", "r"):
        connect_peer(driver, peer, REQUESTS)
    connect_peer(driver, "old", REQUESTS, Features())
    assert dropped(receive_partial(driver, "old", b"1", parts=b"x")) == [("old", "PARTIAL", 1, Reason.UNSUPPORTED)]
    assert dropped(receive_partial(driver, "p", b"1", metadata=b"12345")) == [("p", "METADATA", 1, Reason.OVER_LIMIT)]
    assert dropped(receive_partial(driver, "p", b"1", metadata=b"1234")) == []
    assert dropped(receive_partial(driver, "p", b"2", metadata=b"1234")) == [("p", "METADATA", 1, Reason.OVER_LIMIT)]
    assert dropped(receive_partial(driver, "q", b"2", parts=b"x")) == []
    assert dropped(receive_partial(driver, "r", b"3", parts=b"x")) == [("r", "PARTIAL", 1, Reason.THROTTLED)]
    elsewhere = Rpc(partial=Partial("elsewhere", b"1", b"x"))
    assert dropped(driver.feed(RpcReceived("p", elsewhere))) == [("p", "PARTIAL", 1, Reason.NOT_SUBSCRIBED)]
    driver.feed(PublishPartial(TOPIC, b"1"))
    assert dropped(receive_partial(driver, "r", b"3", parts=b"x")) == []


def test_answers_do_not_make_room_for_more_groups_of_a_peer():
    """Rules: PARTIAL-9. An application that answers every peer, as an exchange of parts does."""
    driver, _ = create_driver(REQUESTS, max_groups_per_peer=2, max_peer_groups=3)
    for peer in ("p", "q"):
        connect_peer(driver, peer, REQUESTS)
    for group in (b"1", b"2"):
        assert dropped(receive_partial(driver, "p", group, metadata=b"1")) == []
        driver.feed(PublishPartial(TOPIC, group, ("p",)))
    assert dropped(receive_partial(driver, "p", b"3", metadata=b"1")) == [("p", "METADATA", 1, Reason.OVER_LIMIT)]
    assert dropped(receive_partial(driver, "q", b"3", metadata=b"1")) == []
    driver.feed(PublishPartial(TOPIC, b"3", ("q",)))
    assert dropped(receive_partial(driver, "q", b"4", metadata=b"1")) == [("q", "METADATA", 1, Reason.THROTTLED)]
    driver.feed(PublishPartial(TOPIC, b"1"))
    assert dropped(receive_partial(driver, "q", b"4", metadata=b"1")) == []


def test_groups_of_a_topic_are_bounded():
    """Rule: PARTIAL-9. A peer sends valid parts of new groups, and the application publishes these groups."""
    driver, _ = create_driver(REQUESTS)
    connect_peer(driver, "p", REQUESTS)
    for number in range(MAX_GROUPS + 10):
        assert dropped(receive_partial(driver, "p", group_named(number), parts=b"x")) == []
        driver.feed(PublishPartial(TOPIC, group_named(number)))
    groups = driver.strategy.partials.groups
    assert len(groups) == MAX_GROUPS
    assert groups.own(TOPIC)[0][0] == group_named(10)


def test_no_state_is_kept_for_a_disconnected_peer_or_a_topic_that_was_left():
    """Rule: PARTIAL-8."""
    driver, _ = create_driver(REQUESTS)
    connect_peer(driver, "p", REQUESTS)
    receive_partial(driver, "p", GROUP, metadata=b"1")
    driver.disconnect("p")
    assert not driver.strategy.remembers("p")
    assert len(driver.strategy.partials.groups) == 0
    connect_peer(driver, "q", REQUESTS)
    driver.feed(PublishPartial(TOPIC, GROUP))
    driver.feed(Leave(TOPIC))
    assert len(driver.strategy.partials.groups) == 0


def test_a_subscribe_has_the_use_of_parts_for_peers_of_1_3():
    """Rule: PARTIAL-1."""
    driver, application = create_driver(SUPPORTS)
    sent = [
        [change for rpc in sent_rpcs(driver.feed(PeerConnected(peer, protocol))) for change in rpc.subscriptions]
        for peer, protocol in (("new", MESHSUB_13), ("old", MESHSUB_12))
    ]
    assert sent == [[Subscription(TOPIC, True, SUPPORTS)], [Subscription(TOPIC, True)]]
    again = [
        action for action in driver.feed(PartialsChosen(TOPIC, REQUESTS, application)) if isinstance(action, Send)
    ]
    assert [(action.peer, action.rpc.subscriptions) for action in again] == [
        ("new", (Subscription(TOPIC, True, REQUESTS),))
    ]
    left = [change for rpc in sent_rpcs(driver.feed(Leave(TOPIC))) for change in rpc.subscriptions]
    assert left == [Subscription(TOPIC, False)] * 2


def test_a_new_subscription_changes_the_use_of_parts_and_unsubscribing_ends_it():
    """Rule: PARTIAL-1."""
    driver, _ = create_driver(SUPPORTS)
    connect_peer(driver, "p", REQUESTS)
    partial_peers = driver.strategy.partials
    assert partial_peers.gets_parts("p", TOPIC)
    driver.receive("p", Subscription(TOPIC, True))
    assert not partial_peers.gets_parts("p", TOPIC)
    driver.receive("p", Subscription(TOPIC, True, REQUESTS))
    driver.receive("p", Subscription(TOPIC, False))
    driver.receive("p", Subscription(TOPIC, True))
    assert not partial_peers.gets_parts("p", TOPIC)


def test_the_fanout_gets_partial_messages():
    """Rule: PARTIAL-5."""
    driver = RouterDriver(joined=(), partial_messages=True)
    driver.feed(PartialsChosen(TOPIC, SUPPORTS, RecordingApplication()))
    connect_peer(driver, "p", REQUESTS, mesh=False)
    assert partials(driver.feed(PublishPartial(TOPIC, GROUP))) == [("p", b"parts", b"metadata")]
    assert [topic for topic, _ in driver.strategy.fanout.topics()] == [TOPIC]


@pytest.mark.parametrize(("useful", "expected"), [(True, 1.0), (False, -1.0)])
def test_feedback_of_the_application_about_parts_changes_the_score(useful, expected):
    """go: PeerFeedback; a first delivery (P2), or an invalid message (P4)."""
    firsts = {"first_deliveries_weight": 1, "first_deliveries_decay": 0.5, "first_deliveries_cap": 10}
    driver, _ = create_driver(
        REQUESTS, score=score_table({**firsts, "invalid_messages_weight": -1, "invalid_messages_decay": 0.9})
    )
    connect_peer(driver, "p", REQUESTS, mesh=False)
    driver.feed(PartialFeedback("p", TOPIC, useful))
    assert driver.score("p") == expected


def test_wrong_use_is_refused():
    driver = RouterDriver()
    with pytest.raises(UsageError, match="no partial messages"):
        driver.feed(PublishPartial(TOPIC, GROUP))
    driver = RouterDriver(partial_messages=True)
    with pytest.raises(UsageError, match="no application has chosen"):
        driver.feed(PublishPartial(TOPIC, GROUP))
    with pytest.raises(UsageError, match="needs an application and a use"):
        driver.feed(PartialsChosen(TOPIC, REQUESTS, None))


PEERS, NAMES = st.sampled_from("pqrs"), st.sampled_from([bytes((number,)) for number in range(6)])
STEPS = st.lists(
    st.tuples(st.just("peer_use"), NAMES, PEERS)
    | st.tuples(st.just("publish"), NAMES)
    | st.tuples(st.just("remove_peer"), PEERS)
    | st.tuples(st.just("beat")),
    min_size=15,
    max_size=60,
)
GROUPS_OF_THREE_PEERS = [("peer_use", bytes((number,)), peer) for number, peer in enumerate("ppqqr")]


@given(STEPS)
@example(GROUPS_OF_THREE_PEERS)
def test_numbers_of_groups_stay_bounded(steps):
    """Rules: PARTIAL-8, PARTIAL-9."""
    groups = Groups(GossipsubParameters.from_mapping({"max_peer_groups": 4, "max_groups_per_peer": 2}))
    for step, *arguments in steps:
        match step, arguments:
            case "peer_use", [name, peer]:
                group = groups.of_peer("t", name, peer)
                if group is not None:
                    group.notes_of(peer)
            case "publish", [name]:
                groups.publish("t", name)
            case "remove_peer", [peer]:
                groups.remove_peer(peer)
                assert not groups.remembers(peer)
            case _:
                groups.beat()
        assert groups.opened("t") <= 4
        assert all(groups.opened_by("t", peer) <= 2 for peer in "pqrs")
    for _ in range(4):
        groups.beat()
    assert len(groups) == 0
