"""Partial messages of v1.3: what go-libp2p-pubsub's tests expect, with their numbers, and what is remembered."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from judged import Judge, dropped, score
from partial_network import EXTENSION_ALONE, NOT_EVEN_THE_EXTENSION, TOPIC, Network

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
USES = (NOT_EVEN_THE_EXTENSION, EXTENSION_ALONE, SUPPORTS, REQUESTS)
GROUP = group_named(7)


class Everything:
    """Sends everybody all there is, each thing once, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def parts_for(self, topic, group, peer):
        self.asked.append(peer)
        if peer.note:
            return PartsFor(note=True)
        return PartsFor(b"parts", None if peer.sent else b"metadata", True)


def meeting(use, **given):
    """A router that has chosen partial messages, and its application."""
    application = Everything()
    judge = Judge(joined=(), partial_messages=True, **given)
    judge.feed(PartialsChosen(TOPIC, use, application))
    judge.feed(Join(TOPIC))
    return judge, application


CAN = Features(partial_messages=True)


def meet(judge, peer, use, features=CAN, mesh=True):
    judge.feed(PeerConnected(peer, MESHSUB_13))
    control = Control(graft=(Graft(TOPIC),) if mesh else (), features=(features,))
    judge.feed(RpcReceived(peer, Rpc((Subscription(TOPIC, True, use),), (), control)))


def partials(actions):
    return [
        (action.peer, action.rpc.partial.parts, action.rpc.partial.metadata)
        for action in actions
        if isinstance(action, Send) and action.rpc.partial is not None
    ]


def spoke(judge, peer, group, **said):
    return judge.feed(RpcReceived(peer, Rpc(partial=Partial(TOPIC, group, **said))))


@pytest.mark.parametrize("publisher", ["a", "b"])
@pytest.mark.parametrize("of_b", USES)
@pytest.mark.parametrize("of_a", USES)
def test_two_of_any_sort_have_the_message_once(of_a, of_b, publisher):
    """Rules: PARTIAL-2, PARTIAL-3. go: PairwiseInteractionWithPartialMessages."""
    network = Network(a=of_a, b=of_b)
    network.connect(("a", "b"))
    network.beat(2)
    network.add(publisher, GROUP)
    network.beat(2)
    other = "b" if publisher == "a" else "a"
    assert network.nodes[other].whole == [GROUP]
    of_publisher, of_other = (of_a, of_b) if publisher == "a" else (of_b, of_a)
    by_parts = of_publisher in (SUPPORTS, REQUESTS) and of_other == REQUESTS
    assert (network.full_messages(publisher, other) == 0) is by_parts
    assert any(parts for parts, _ in network.partials(publisher, other)) is by_parts


@pytest.mark.parametrize(
    ("own", "of_peer", "features", "expected"),
    [
        (REQUESTS, REQUESTS, True, (b"parts", b"metadata")),
        (SUPPORTS, REQUESTS, True, (b"parts", b"metadata")),
        (REQUESTS, SUPPORTS, True, (None, b"metadata")),
        (SUPPORTS, SUPPORTS, True, None),
        (REQUESTS, NONE, True, None),
        (REQUESTS, REQUESTS, False, None),
    ],
)
def test_what_goes_to_which_peer(own, of_peer, features, expected):
    """Rules: PARTIAL-2, PARTIAL-3, PARTIAL-5, EXT-3."""
    judge, application = meeting(own)
    meet(judge, "p", of_peer, Features(partial_messages=features))
    assert partials(judge.feed(PublishPartial(TOPIC, GROUP))) == ([("p", *expected)] if expected else [])
    gets_messages = not (expected and expected[0])
    assert [rpc.messages != () for rpc in sends(judge.publish("m1"))] == ([True] if gets_messages else [])
    assert [peer.requests for peer in application.asked] == ([expected[0] is not None] if expected else [])


@pytest.mark.parametrize(
    ("sent_before", "of_peer", "expected"),
    [
        ("by_requesters", SUPPORTS, None),
        ("by_all", SUPPORTS, (None, b"metadata")),
        ("by_requesters", REQUESTS, (b"parts", b"metadata")),
        ("by_all", REQUESTS, (b"parts", b"metadata")),
        ("by_all", NONE, None),
    ],
)
def test_what_who_only_supports_parts_tells(sent_before, of_peer, expected):
    """Rule: PARTIAL-2. Between two supporters go says nothing, rust metadata; both send full messages, no parts."""
    judge, _ = meeting(SUPPORTS, supporters_told=sent_before)
    meet(judge, "p", of_peer)
    assert partials(judge.feed(PublishPartial(TOPIC, GROUP))) == ([("p", *expected)] if expected else [])
    assert [rpc.messages != () for rpc in sends(judge.publish("m1"))] == ([True] if of_peer != REQUESTS else [])


@pytest.mark.parametrize("of_peer", [SUPPORTS, NONE])
def test_a_peer_that_spoke_of_a_group_is_answered(of_peer):
    """Rule: PARTIAL-5. Never with parts, if it requests none; once, and not what was not asked about."""
    judge, _ = meeting(SUPPORTS)
    meet(judge, "p", of_peer, mesh=False)
    spoke(judge, "p", GROUP, parts=b"x")
    assert partials(judge.feed(PublishPartial(TOPIC, GROUP))) == [("p", None, b"metadata")]
    assert partials(judge.feed(PublishPartial(TOPIC, GROUP))) == []
    assert partials(judge.feed(PublishPartial(TOPIC, group_named(8)))) == []


def test_who_left_the_topic_without_a_word_about_the_group_receives_no_more_of_it():
    """Rule: PARTIAL-5."""
    judge, _ = meeting(REQUESTS)
    for peer in ("p", "q"):
        meet(judge, peer, REQUESTS)
    judge.feed(PublishPartial(TOPIC, GROUP))
    spoke(judge, "q", GROUP, metadata=b"x")
    for peer in ("p", "q"):
        judge.say(peer, Subscription(TOPIC, False))
    judge.strategy.partials.groups.not_sent(TOPIC, GROUP, "q")
    assert partials(judge.feed(PublishPartial(TOPIC, GROUP))) == [("q", None, b"metadata")]


def test_an_application_is_reminded_of_its_groups_as_long_as_they_are_remembered():
    """Rule: PARTIAL-10. Not of a group of which only a peer spoke, nor of one in a topic that was left."""
    judge, _ = meeting(REQUESTS)
    meet(judge, "p", REQUESTS)
    spoke(judge, "p", group_named(8), metadata=b"x")
    judge.feed(PublishPartial(TOPIC, GROUP))
    reminders = [[action for action in judge.beat() if isinstance(action, RemindOfPartial)] for _ in range(5)]
    assert reminders == [[RemindOfPartial(TOPIC, GROUP)]] * 3 + [[], []]
    judge.feed(PublishPartial(TOPIC, GROUP))
    judge.feed(Leave(TOPIC))
    assert not any(isinstance(action, RemindOfPartial) for action in judge.beat())


def sends(actions):
    return [action.rpc for action in actions if isinstance(action, Send)]


def test_a_requester_takes_full_messages_and_gets_those_it_asks_for():
    """Rule: PARTIAL-3."""
    judge, _ = meeting(REQUESTS)
    meet(judge, "p", REQUESTS)
    message = Message("m1", TOPIC, b"x", "author")
    assert any(
        getattr(action, "message", None) == message for action in judge.feed(RpcReceived("p", Rpc((), (message,))))
    )
    judge.publish("m2")
    actions = judge.feed(RpcReceived("p", Rpc(control=Control(iwant=(IWant(("m2",)),)))))
    assert [rpc.messages[0].id for rpc in sends(actions)] == ["m2"]


def test_a_ring_in_which_one_has_no_support():
    """Rules: PARTIAL-2, PARTIAL-7. go: PeerSupportsPartialMessages. 0 requests, 1 has none, others support."""
    network = Network(n0=REQUESTS, n1=NOT_EVEN_THE_EXTENSION, n2=SUPPORTS, n3=SUPPORTS, n4=SUPPORTS)
    network.connect(("n0", "n1"), ("n1", "n2"), ("n2", "n3"), ("n3", "n4"), ("n4", "n0"))
    network.beat(3)
    network.add("n0", GROUP, range(0))
    assert network.partials("n0", "n4") == [(False, True)]
    network.add("n4", GROUP)
    assert network.partials("n4", "n0")[-1][0]
    assert network.nodes["n0"].whole == [GROUP]
    assert network.nodes["n1"].whole == [GROUP]


def test_no_idontwant_between_those_who_exchange_parts():
    """Rule: PARTIAL-4. go: NoIDONTWANTWithPartialMessage, a line: supports, requests, none."""
    network = Network(n0=SUPPORTS, n1=REQUESTS, n2=NOT_EVEN_THE_EXTENSION)
    network.connect(("n0", "n1"), ("n1", "n2"))
    network.beat(3)
    network.publish("n2", GROUP, b"".join(counted(GROUP, range(8)).values()))
    assert network.idontwants("n1") == []
    assert [network.nodes[name].whole for name in ("n0", "n1")] == [[GROUP], [GROUP]]


def test_gossip_reaches_who_is_not_in_the_mesh_once():
    """Rule: PARTIAL-6. go: GossipDelivery, EmitGossipWhenAllPeersPartial: nothing at the publication, all in the
    heartbeat although there is nothing to say IHAVE about, and nothing again in the next."""
    judge, application = meeting(REQUESTS, full_mesh="refuse", degree=0, degree_low=0, degree_high=0, degree_out=0,
                                 degree_score=0)  # fmt: skip
    meet(judge, "p", REQUESTS, mesh=False)
    assert judge.mesh() == []
    assert partials(judge.feed(PublishPartial(TOPIC, GROUP))) == []
    assert partials(judge.beat()) == [("p", b"parts", b"metadata")]
    assert [peer.gossip for peer in application.asked] == [True]
    assert partials(judge.beat()) == []


def test_thirty_routers_that_all_request_parts_gossip_about_them():
    """Rule: PARTIAL-6. go: PartialMessagesEmitGossipWhenAllPeersPartial, thirty of which each dials ten. No message
    is sent whole, so there is nothing to say IHAVE about, and applications are asked for gossip all the same."""
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
    assert sum(node.application.gossiped for node in network.nodes.values()) > 0


@pytest.mark.parametrize("in_mesh", [True, False])
def test_what_did_not_leave_is_sent_again(in_mesh):
    """Rule: PARTIAL-8. With the next publication to who is in the mesh, else with the next gossip."""
    degrees = (
        {} if in_mesh else dict.fromkeys(("degree", "degree_low", "degree_high", "degree_out", "degree_score"), 0)
    )
    judge, _ = meeting(REQUESTS, full_mesh="refuse", **degrees)
    meet(judge, "p", REQUESTS, mesh=in_mesh)
    first = [*judge.feed(PublishPartial(TOPIC, GROUP)), *judge.beat()]
    assert partials(first) == [("p", b"parts", b"metadata")]
    (sent,) = [rpc for rpc in sends(first) if rpc.partial is not None]
    judge.feed(SendFailed("p", sent))
    again = judge.feed(PublishPartial(TOPIC, GROUP)) if in_mesh else judge.beat()
    assert partials(again) == [("p", b"parts", b"metadata")]
    judge.feed(SendFailed("p", Rpc(partial=Partial(TOPIC, b"unknown", b"parts"))))


def test_gossip_in_place_of_ihave():
    """Rule: PARTIAL-6."""
    judge, _ = meeting(SUPPORTS, full_mesh="refuse", degree=0, degree_low=0, degree_high=0, degree_out=0,
                       degree_score=0)  # fmt: skip
    meet(judge, "p", REQUESTS, mesh=False)
    meet(judge, "q", SUPPORTS, mesh=False)
    judge.publish("m1")
    actions = judge.beat()
    sent_before = [action.peer for action in actions if isinstance(action, Send) and action.rpc.control is not None]
    assert sent_before == ["q"]
    assert any(isinstance(part, IHave) for rpc in sends(actions) if rpc.control for part in rpc.control.parts())


def test_later_metadata_replaces_the_earlier_and_none_says_nothing():
    """Rule: PARTIAL-8."""
    judge, application = meeting(REQUESTS)
    meet(judge, "p", REQUESTS)
    for metadata in (b"first", b"second", None):
        [action] = spoke(judge, "p", GROUP, parts=b"x", metadata=metadata)
        assert action == DeliverPartial(Partial(TOPIC, GROUP, b"x", metadata), "p")
    judge.feed(PublishPartial(TOPIC, GROUP, ("p",)))
    assert [peer.received for peer in application.asked] == [b"second"]


def test_groups_that_peers_open_are_counted():
    """Rule: PARTIAL-9. go: PeerInitiatedCounter, limits 4 per topic and 2 per peer."""
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
    """Rule: PARTIAL-8. go: beyond the time (3 + 1) there is none."""
    groups = Groups(GossipsubParameters())
    group = groups.of_peer("t", GROUP, "p") if by_peer else groups.publish("t", GROUP)
    assert group is not None
    group.notes_of("p")
    for _ in range(3):
        groups.beat()
        assert len(groups) == 1
    groups.beat()
    assert len(groups) == 0


def test_what_a_peer_may_not_say():
    """Rules: PARTIAL-7, PARTIAL-9."""
    judge, _ = meeting(REQUESTS, max_groups_per_peer=1, max_peer_groups=2, max_metadata_bytes=4)
    for peer in ("p", "q", "r"):
        meet(judge, peer, REQUESTS)
    meet(judge, "older", REQUESTS, Features())
    assert dropped(spoke(judge, "older", b"1", parts=b"x")) == [("older", "PARTIAL", 1, Reason.UNSUPPORTED)]
    assert dropped(spoke(judge, "p", b"1", metadata=b"12345")) == [("p", "METADATA", 1, Reason.OVER_LIMIT)]
    assert dropped(spoke(judge, "p", b"1", metadata=b"1234")) == []
    assert dropped(spoke(judge, "p", b"2", metadata=b"1234")) == [("p", "METADATA", 1, Reason.OVER_LIMIT)]
    assert dropped(spoke(judge, "q", b"2", parts=b"x")) == []
    assert dropped(spoke(judge, "r", b"3", parts=b"x")) == [("r", "PARTIAL", 1, Reason.THROTTLED)]
    elsewhere = Rpc(partial=Partial("elsewhere", b"1", b"x"))
    assert dropped(judge.feed(RpcReceived("p", elsewhere))) == [("p", "PARTIAL", 1, Reason.NOT_SUBSCRIBED)]
    judge.feed(PublishPartial(TOPIC, b"1"))
    assert dropped(spoke(judge, "r", b"3", parts=b"x")) == []


def test_answers_do_not_make_room_for_more_groups_of_a_peer():
    """Rules: PARTIAL-9. An application that answers every peer, as an exchange of parts does."""
    judge, _ = meeting(REQUESTS, max_groups_per_peer=2, max_peer_groups=3)
    for peer in ("p", "q"):
        meet(judge, peer, REQUESTS)
    for group in (b"1", b"2"):
        assert dropped(spoke(judge, "p", group, metadata=b"1")) == []
        judge.feed(PublishPartial(TOPIC, group, ("p",)))
    assert dropped(spoke(judge, "p", b"3", metadata=b"1")) == [("p", "METADATA", 1, Reason.OVER_LIMIT)]
    assert dropped(spoke(judge, "q", b"3", metadata=b"1")) == []
    judge.feed(PublishPartial(TOPIC, b"3", ("q",)))
    assert dropped(spoke(judge, "q", b"4", metadata=b"1")) == [("q", "METADATA", 1, Reason.THROTTLED)]
    judge.feed(PublishPartial(TOPIC, b"1"))
    assert dropped(spoke(judge, "q", b"4", metadata=b"1")) == []


def test_a_topic_has_so_many_groups_in_all():
    """Rule: PARTIAL-9. A peer brings right parts of new groups, and the application publishes them."""
    judge, _ = meeting(REQUESTS)
    meet(judge, "p", REQUESTS)
    for number in range(MAX_GROUPS + 10):
        assert dropped(spoke(judge, "p", group_named(number), parts=b"x")) == []
        judge.feed(PublishPartial(TOPIC, group_named(number)))
    groups = judge.strategy.partials.groups
    assert len(groups) == MAX_GROUPS
    assert groups.own(TOPIC)[0][0] == group_named(10)


def test_nothing_is_kept_of_who_is_gone_or_of_a_topic_that_was_left():
    """Rule: PARTIAL-8."""
    judge, _ = meeting(REQUESTS)
    meet(judge, "p", REQUESTS)
    spoke(judge, "p", GROUP, metadata=b"1")
    judge.disconnect("p")
    assert not judge.strategy.remembers("p")
    assert len(judge.strategy.partials.groups) == 0
    meet(judge, "q", REQUESTS)
    judge.feed(PublishPartial(TOPIC, GROUP))
    judge.feed(Leave(TOPIC))
    assert len(judge.strategy.partials.groups) == 0


def test_what_subscribe_says():
    """Rule: PARTIAL-1."""
    judge, application = meeting(SUPPORTS)
    said = [
        [change for rpc in sends(judge.feed(PeerConnected(peer, protocol))) for change in rpc.subscriptions]
        for peer, protocol in (("new", MESHSUB_13), ("old", MESHSUB_12))
    ]
    assert said == [[Subscription(TOPIC, True, SUPPORTS)], [Subscription(TOPIC, True)]]
    again = [
        action for action in judge.feed(PartialsChosen(TOPIC, REQUESTS, application)) if isinstance(action, Send)
    ]
    assert [(action.peer, action.rpc.subscriptions) for action in again] == [
        ("new", (Subscription(TOPIC, True, REQUESTS),))
    ]
    left = [change for rpc in sends(judge.feed(Leave(TOPIC))) for change in rpc.subscriptions]
    assert left == [Subscription(TOPIC, False)] * 2


def test_a_peer_changes_its_mind_and_unsubscribing_ends_it():
    """Rule: PARTIAL-1."""
    judge, _ = meeting(SUPPORTS)
    meet(judge, "p", REQUESTS)
    partial_peers = judge.strategy.partials
    assert partial_peers.gets_parts("p", TOPIC)
    judge.say("p", Subscription(TOPIC, True))
    assert not partial_peers.gets_parts("p", TOPIC)
    judge.say("p", Subscription(TOPIC, True, REQUESTS))
    judge.say("p", Subscription(TOPIC, False))
    judge.say("p", Subscription(TOPIC, True))
    assert not partial_peers.gets_parts("p", TOPIC)


def test_the_fan_out_gets_what_is_published_partially():
    """Rule: PARTIAL-5."""
    judge = Judge(joined=(), partial_messages=True)
    judge.feed(PartialsChosen(TOPIC, SUPPORTS, Everything()))
    meet(judge, "p", REQUESTS, mesh=False)
    assert partials(judge.feed(PublishPartial(TOPIC, GROUP))) == [("p", b"parts", b"metadata")]
    assert [topic for topic, _ in judge.strategy.fanout.topics()] == [TOPIC]


@pytest.mark.parametrize(("useful", "expected"), [(True, 1.0), (False, -1.0)])
def test_what_the_application_says_of_parts_counts(useful, expected):
    """go: PeerFeedback; a first delivery (P2), or an invalid message (P4)."""
    firsts = {"first_deliveries_weight": 1, "first_deliveries_decay": 0.5, "first_deliveries_cap": 10}
    judge, _ = meeting(
        REQUESTS, score=score({**firsts, "invalid_messages_weight": -1, "invalid_messages_decay": 0.9})
    )
    meet(judge, "p", REQUESTS, mesh=False)
    judge.feed(PartialFeedback("p", TOPIC, useful))
    assert judge.score("p") == expected


def test_wrong_use_is_refused():
    judge = Judge()
    with pytest.raises(UsageError, match="no partial messages"):
        judge.feed(PublishPartial(TOPIC, GROUP))
    judge = Judge(partial_messages=True)
    with pytest.raises(UsageError, match="no application has chosen"):
        judge.feed(PublishPartial(TOPIC, GROUP))
    with pytest.raises(UsageError, match="needs an application and a use"):
        judge.feed(PartialsChosen(TOPIC, REQUESTS, None))


PEERS, NAMES = st.sampled_from("pqrs"), st.sampled_from([bytes((number,)) for number in range(6)])
STEPS = st.lists(
    st.tuples(st.just("of_peer"), NAMES, PEERS)
    | st.tuples(st.just("publish"), NAMES)
    | st.tuples(st.just("remove_peer"), PEERS)
    | st.tuples(st.just("beat")),
    min_size=15,
    max_size=60,
)
OF_THREE = [("of_peer", bytes((number,)), peer) for number, peer in enumerate("ppqqr")]


@given(STEPS)
@example(OF_THREE)
def test_however_peers_come_and_go_the_bounds_hold(steps):
    """Rules: PARTIAL-8, PARTIAL-9."""
    groups = Groups(GossipsubParameters.from_mapping({"max_peer_groups": 4, "max_groups_per_peer": 2}))
    for step, *said in steps:
        match step, said:
            case "of_peer", [name, peer]:
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
