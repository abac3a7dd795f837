"""Exchange of parts until all nodes have all parts, no part twice over one link. Hostile input changes nothing."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from exchange_network import TOPIC, ExchangeNetwork
from hypothesis import given, settings
from hypothesis import strategies as st

from hearsay.partial import (
    Asking,
    Bitlists,
    Bitmap,
    EqualParts,
    InvalidParts,
    Outcome,
    Partial,
    PartialFeedback,
    PartialPeer,
    PartsExchange,
    PublishPartial,
    counted,
    counted_parts,
    group_named,
)
from hearsay.partial.exchange import MAX_SENDERS

FORM = counted_parts()
GROUP = group_named(7)
ALL = range(8)


def exchange_network(count, **options):
    return ExchangeNetwork([PartsExchange(FORM) for _ in range(count)], **options)


def add_parts(network, node, parts, group=GROUP):
    network.apply(node, network.applications[node].add(TOPIC, group, counted(group, parts)))


def held_parts(network, node, group=GROUP):
    return sorted(network.applications[node].held(TOPIC, group))


UNKNOWN_GROUP = None
"""In place of a node's parts: the node does not know the group."""


@pytest.mark.parametrize(
    ("starts", "parts_sent"),
    [
        pytest.param((ALL, ()), 8, id="h1 has all the data. h2 requests it"),
        pytest.param((ALL, UNKNOWN_GROUP), 8, id="h1 has all the data. h2 doesn't know anything"),
        pytest.param((ALL, range(0, 8, 2)), 4, id="h1 has all the data. h2 has some of it"),
        pytest.param((range(0, 8, 2), range(1, 8, 2)), 8, id="h1 has half the data. h2 has the other half of it"),
        pytest.param((range(0, 8, 2), range(0, 8, 2)), 0, id="h1 and h2 have the same half of data"),
        pytest.param((ALL, ALL), 0, id="both have all"),
    ],
)
@pytest.mark.parametrize("first", [0, 1])
def test_two_peers_give_each_other_what_they_lack(starts, parts_sent, first):
    """go's cases by their names. In all cases each peer sends its metadata once."""
    network = exchange_network(2)
    for node in (first, 1 - first):
        if starts[node] is not UNKNOWN_GROUP:
            add_parts(network, node, starts[node])
    network.deliver_all()
    everything = sorted({*starts[0], *(starts[1] or ())})
    assert [held_parts(network, node) for node in (0, 1)] == [everything, everything]
    assert len(network.parts_sent(FORM, GROUP)) == parts_sent
    assert len(network.wholes) == 2 * (len(everything) == 8)
    assert [len(network.metadata_sent(*link)) for link in ((0, 1), (1, 0))] == [1, 1]


def test_a_peer_that_gets_metadata_from_outside_its_mesh_gets_all_parts():
    """go: h1 is not in h2's mesh, but sends h2 a partial message."""
    network = exchange_network(2, outside=[(1, 0)])
    add_parts(network, 0, ALL)
    network.deliver_all()
    assert held_parts(network, 1) == list(ALL)
    assert len(network.parts_sent(FORM, GROUP)) == 8


def test_each_of_two_pushes_a_message_of_its_own_eagerly():
    """go: h1 has all the data and eager pushes. h2 has the next message also eager pushes."""
    network = ExchangeNetwork([PartsExchange(FORM, eager=True) for _ in range(2)])
    groups = [group_named(1), group_named(2)]
    for node, group in enumerate(groups):
        add_parts(network, node, ALL, group)
        network.deliver_all()
        assert network.parts_sent(FORM, group) == [(node, 1 - node, index) for index in ALL]
    assert [held_parts(network, node, group) for node in (0, 1) for group in groups] == [list(ALL)] * 4


@pytest.mark.parametrize("asks", list(Asking))
def test_a_message_in_three_places_comes_together_in_all(asks):
    """go: three peers with distributed partial data."""
    form = counted_parts(claims=Bitlists())
    network = ExchangeNetwork([PartsExchange(form, asks=asks) for _ in range(3)])
    for node, parts in enumerate([(0, 3, 6), (1, 4, 7), (2, 5)]):
        add_parts(network, node, parts)
    network.deliver_all()
    assert sorted(node for node, _ in network.wholes) == [0, 1, 2]
    assert {whole for _, whole in network.wholes} == {FORM.encode(GROUP, counted(GROUP, ALL))}
    sent = network.parts_sent(form, GROUP)
    assert len(sent) == 16 if asks is Asking.ONE else len(sent) >= 16


def test_one_of_three_has_all_and_pushes_it_and_the_others_pass_on_what_is_new():
    """go: three peers. peer 1 has all data and eager pushes. Receivers eager push new content."""
    network = ExchangeNetwork([PartsExchange(FORM, eager=True) for _ in range(3)])
    for node, parts in enumerate([ALL, (), ()]):
        add_parts(network, node, parts)
    network.deliver_all()
    assert [held_parts(network, node) for node in range(3)] == [list(ALL)] * 3
    assert sorted(node for node, _ in network.wholes) == [0, 1, 2]


def test_no_peer_asks_for_what_it_has():
    """One announcement each way and nothing else, however often the group is published again."""
    network = exchange_network(2)
    add_parts(network, 0, range(4))
    add_parts(network, 1, range(4))
    network.deliver_all()
    assert [(partial.parts, partial.metadata) for _, _, partial in network.sent] == [(None, b"\x0f")] * 2
    network.publish(0, PublishPartial(TOPIC, GROUP))
    assert network.waiting() == []


def test_a_peer_that_requests_no_parts_gets_none_and_sends_all():
    network = exchange_network(2, supports=[0])
    add_parts(network, 0, ALL)
    add_parts(network, 1, ())
    network.deliver_all()
    assert network.wholes == [
        (0, FORM.encode(GROUP, counted(GROUP, ALL))),
        (1, FORM.encode(GROUP, counted(GROUP, ALL))),
    ]
    assert {receiver for _, receiver, _ in network.parts_sent(FORM, GROUP)} == {1}


def test_an_eager_source_needs_no_question():
    """Its first RPC has the parts. Other sources exchange metadata first."""
    network = ExchangeNetwork([PartsExchange(FORM, eager=True), PartsExchange(FORM)])
    add_parts(network, 0, ALL)
    assert [(partial.parts is not None, partial.metadata) for _, _, partial in network.sent] == [(True, b"\xff")]
    network.deliver_all()
    assert held_parts(network, 1) == list(ALL)
    assert len(network.parts_sent(FORM, GROUP)) == 8


def test_eager_sources_push_nothing_for_gossip():
    exchange = PartsExchange(FORM, eager=True)
    exchange.add(TOPIC, GROUP, counted(GROUP, ALL))
    answer = exchange.parts_for(TOPIC, GROUP, PartialPeer(1, True, True))
    assert (answer.parts, answer.metadata) == (None, b"\xff")


@st.composite
def networks(draw):
    """Return the links of a connected network, and the parts of each node at the start."""
    count = draw(st.integers(2, 6))
    links = {(node, draw(st.integers(0, node - 1))) for node in range(1, count)}
    more = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda link: link[0] != link[1])
    links |= {(max(link), min(link)) for link in draw(st.sets(more, max_size=4))}
    starts = draw(st.lists(st.sets(st.integers(0, 7)), min_size=count, max_size=count))
    return sorted(links), starts


@settings(max_examples=200, deadline=None)
@given(
    network=networks(),
    data=st.data(),
    claims=st.sampled_from([Bitmap(), Bitlists()]),
    eager=st.booleans(),
    asks=st.sampled_from(Asking),
)
def test_all_nodes_get_all_parts_in_any_network_and_order(network, data, claims, eager, asks):
    links, starts = network
    form = counted_parts(8, 8, claims)
    network = ExchangeNetwork([PartsExchange(form, eager=eager, asks=asks) for _ in starts], links)
    for node, parts in enumerate(starts):
        network.apply(node, network.applications[node].add(TOPIC, GROUP, counted(GROUP, parts, 8)))
    network.deliver_all(lambda waiting: data.draw(st.sampled_from(waiting)))
    everything = sorted(set().union(*starts))
    assert [held_parts(network, node) for node in range(len(starts))] == [everything] * len(starts)
    sent = network.parts_sent(form, GROUP)
    assert max(Counter(sent).values(), default=1) == 1
    if asks is Asking.ONE and isinstance(claims, Bitlists) and not eager:
        assert len(sent) == sum(len(everything) - len(parts) for parts in starts)
    wholes = range(len(starts)) if len(everything) == 8 else range(0)
    assert Counter(node for node, _ in network.wholes) == dict.fromkeys(wholes, 1)
    assert all(partial.parts is not None or partial.metadata is not None for _, _, partial in network.sent)
    assert {useful for _, _, useful in network.feedback} <= {True}


@pytest.mark.parametrize("claims", [Bitmap(), Bitlists()])
@pytest.mark.parametrize("asks", Asking)
def test_an_exchange_ends_although_no_peer_has_all_parts(asks, claims):
    """Before, with bitmaps, nodes that request each part from one peer exchanged metadata without end."""
    form = counted_parts(8, 8, claims)
    for seed in range(50):
        random = Random(seed)
        network = ExchangeNetwork([PartsExchange(form, asks=asks) for _ in range(4)], [(1, 0), (2, 0), (3, 0)])
        for node in range(4):
            parts = set(random.sample(range(7), random.randrange(7)))
            network.apply(node, network.applications[node].add(TOPIC, GROUP, counted(GROUP, parts, 8)))
        for _ in range(1000):
            if not (waiting := network.waiting()):
                break
            network.deliver(random.choice(waiting))
        assert not network.waiting()


BAD = {
    "a group of another length": Partial(TOPIC, b"7", None, b"\x00"),
    "metadata of another length": Partial(TOPIC, GROUP, None, b"\x00\x00"),
    "a part cut short": Partial(TOPIC, GROUP, FORM.encode(GROUP, counted(GROUP, [0]))[:-1], None),
    "no bitmap": Partial(TOPIC, GROUP, b"\x01", None),
    "other bytes": Partial(TOPIC, GROUP, FORM.encode(GROUP, {0: bytes(1024)}), None),
    "another group's parts": Partial(TOPIC, GROUP, FORM.encode(group_named(8), counted(group_named(8), [0])), None),
    "right parts, wrong metadata": Partial(TOPIC, GROUP, FORM.encode(GROUP, counted(GROUP, [0])), b"\x00\x00"),
}


@pytest.mark.parametrize("partial", BAD.values(), ids=BAD)
def test_invalid_partial_messages_are_counted_and_change_nothing(partial):
    exchange = PartsExchange(FORM)
    assert exchange.received(partial, 3) == Outcome((PartialFeedback(3, TOPIC, useful=False),))
    assert exchange.invalid == 1
    assert exchange.held(TOPIC, partial.group) == {}


@given(
    group=st.binary(max_size=9),
    parts=st.none() | st.binary(max_size=40),
    metadata=st.none() | st.binary(max_size=3),
    last_received=st.none() | st.binary(max_size=3),
    claims=st.sampled_from([Bitmap(), Bitlists()]),
    asks=st.sampled_from(Asking),
)
def test_no_partial_message_of_a_peer_raises(group, parts, metadata, last_received, claims, asks):
    exchange = PartsExchange(counted_parts(4, 8, claims), asks=asks)
    exchange.received(Partial(TOPIC, group, parts, metadata), 3)
    exchange.parts_for(TOPIC, group, PartialPeer(3, True, False, last_received, last_received, None))
    exchange.reminded(TOPIC, group)
    exchange.message_received(TOPIC, group)


def test_a_repeated_part_brings_no_credit_and_is_answered_to_its_sender_only():
    exchange = PartsExchange(FORM)
    partial = Partial(TOPIC, GROUP, FORM.encode(GROUP, counted(GROUP, [2])), None)
    assert exchange.received(partial, 3).events == (
        PartialFeedback(3, TOPIC, useful=True),
        PublishPartial(TOPIC, GROUP),
    )
    assert exchange.received(partial, 3).events == (PublishPartial(TOPIC, GROUP, (3,)),)


def test_known_parts_are_added_when_a_group_is_first_seen():
    """Seven of eight parts are known from elsewhere. Peers get metadata, and one part is missing."""
    known = counted(GROUP, range(7))
    exchange = PartsExchange(FORM, known=lambda topic, group: known if group == GROUP else {})
    assert exchange.received(Partial(TOPIC, GROUP, None, b"\xff"), 3) == Outcome((PublishPartial(TOPIC, GROUP),))
    assert exchange.parts_for(TOPIC, GROUP, PartialPeer(3, True, False, b"\xff")).metadata == b"\x7f"
    last = Partial(TOPIC, GROUP, FORM.encode(GROUP, counted(GROUP, [7])), None)
    assert exchange.received(last, 3).whole == FORM.encode(GROUP, counted(GROUP, ALL))
    other = group_named(8)
    assert exchange.received(Partial(TOPIC, other, None, b"\xff"), 3).events == (PublishPartial(TOPIC, other, (3,)),)


def test_metadata_alone_opens_no_group():
    exchange = PartsExchange(FORM, max_groups=1)
    exchange.add(TOPIC, GROUP, counted(GROUP, [0]))
    for number in range(100, 200):
        exchange.received(Partial(TOPIC, group_named(number), None, b"\xff"), 3)
    assert list(exchange.held(TOPIC, GROUP)) == [0]


def test_the_oldest_group_goes_when_there_are_too_many():
    exchange = PartsExchange(FORM, max_groups=2)
    for number in (1, 2, 3):
        exchange.add(TOPIC, group_named(number), counted(group_named(number), [0]))
    assert [len(exchange.held(TOPIC, group_named(number))) for number in (1, 2, 3)] == [0, 1, 1]
    exchange.forget(TOPIC, group_named(3))
    assert exchange.held(TOPIC, group_named(3)) == {}


def test_remembered_senders_are_bounded():
    """Further peers are not remembered as senders, so they may get a part that they have."""
    exchange = PartsExchange(FORM)
    exchange.add(TOPIC, GROUP, counted(GROUP, [0]))
    partial = Partial(TOPIC, GROUP, FORM.encode(GROUP, counted(GROUP, [0])), None)
    for peer in range(300):
        exchange.received(partial, peer)
    sent = [exchange.parts_for(TOPIC, GROUP, PartialPeer(peer, True, False, b"\x00")).parts for peer in range(300)]
    assert [parts is None for parts in sent] == [True] * MAX_SENDERS + [False] * (300 - MAX_SENDERS)


def test_a_full_message_gives_all_its_parts_and_counts_once():
    network = exchange_network(2)
    whole = FORM.encode(GROUP, counted(GROUP, ALL))
    network.apply(0, network.applications[0].message_received(TOPIC, whole))
    add_parts(network, 1, (0,))
    network.deliver_all()
    assert network.wholes == [(1, whole)]
    assert network.applications[0].message_received(TOPIC, whole) == Outcome()
    assert network.applications[0].message_received(TOPIC, whole[:-1]) == Outcome()
    assert network.applications[0].invalid == 1


def test_own_parts_must_be_valid():
    exchange = PartsExchange(FORM)
    for wrong in ({0: bytes(1024)}, {0: b"short"}, {8: bytes(1024)}):
        with pytest.raises(InvalidParts):
            exchange.add(TOPIC, GROUP, wrong)


def test_a_peer_that_wants_less_is_sent_no_more():
    """Two bitlists distinguish missing from wanted parts, as Ethereum's columns do."""
    claims = Bitlists()
    form = counted_parts(8, 8, claims)
    exchange = PartsExchange(form)
    exchange.add(TOPIC, GROUP, counted(GROUP, ALL, 8))
    last_received = bytes([8, 0, 0, 0, 10, 0, 0, 0, 0b0001, 1, 0b0110, 1])
    answer = exchange.parts_for(TOPIC, GROUP, PartialPeer(1, True, False, last_received))
    assert sorted(form.decode(GROUP, answer.parts or b"")) == [1, 2]
    assert answer.metadata == bytes([8, 0, 0, 0, 10, 0, 0, 0, 0xFF, 1, 0, 1])


def test_parts_of_any_number_and_size():
    form = EqualParts(count=11, part_bytes=3, group_bytes=2)
    parts = {0: b"abc", 9: b"xyz"}
    assert form.encode(b"gr", parts) == b"\x01\x02abcxyzgr"
    assert form.decode(b"gr", b"\x01\x02abcxyzgr") == parts
    with pytest.raises(InvalidParts):
        form.decode(b"gr", b"\x01\x08abcxyzgr")
