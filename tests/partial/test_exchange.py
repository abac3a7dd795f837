"""Parts are exchanged until everybody has all, none twice over one link, and hostile input changes nothing."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from talk import TOPIC, Talk

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


def talk_of(count, **options):
    return Talk([PartsExchange(FORM) for _ in range(count)], **options)


def own(talk, node, parts, group=GROUP):
    talk.follow(node, talk.applications[node].add(TOPIC, group, counted(group, parts)))


def has(talk, node, group=GROUP):
    return sorted(talk.applications[node].held(TOPIC, group))


UNHEARD = None
"""The parts that a node has of an unknown group."""


@pytest.mark.parametrize(
    ("starts", "parts_sent"),
    [
        pytest.param((ALL, ()), 8, id="h1 has all the data. h2 requests it"),
        pytest.param((ALL, UNHEARD), 8, id="h1 has all the data. h2 doesn't know anything"),
        pytest.param((ALL, range(0, 8, 2)), 4, id="h1 has all the data. h2 has some of it"),
        pytest.param((range(0, 8, 2), range(1, 8, 2)), 8, id="h1 has half the data. h2 has the other half of it"),
        pytest.param((range(0, 8, 2), range(0, 8, 2)), 0, id="h1 and h2 have the same half of data"),
        pytest.param((ALL, ALL), 0, id="both have all"),
    ],
)
@pytest.mark.parametrize("first", [0, 1])
def test_two_peers_give_each_other_what_they_lack(starts, parts_sent, first):
    """go's cases by their names. Whatever is there, each says once what it has."""
    talk = talk_of(2)
    for node in (first, 1 - first):
        if starts[node] is not UNHEARD:
            own(talk, node, starts[node])
    talk.finish()
    everything = sorted({*starts[0], *(starts[1] or ())})
    assert [has(talk, node) for node in (0, 1)] == [everything, everything]
    assert len(talk.parts_sent(FORM, GROUP)) == parts_sent
    assert len(talk.wholes) == 2 * (len(everything) == 8)
    assert [len(talk.metadata_sent(*link)) for link in ((0, 1), (1, 0))] == [1, 1]


def test_who_is_not_in_the_mesh_is_sent_a_partial_message_and_gets_all():
    """go: h1 is not in h2's mesh, but sends h2 a partial message."""
    talk = talk_of(2, outside=[(1, 0)])
    own(talk, 0, ALL)
    talk.finish()
    assert has(talk, 1) == list(ALL)
    assert len(talk.parts_sent(FORM, GROUP)) == 8


def test_each_of_two_pushes_a_message_of_its_own_eagerly():
    """go: h1 has all the data and eager pushes. h2 has the next message also eager pushes. No peer has to ask."""
    talk = Talk([PartsExchange(FORM, eager=True) for _ in range(2)])
    groups = [group_named(1), group_named(2)]
    for node, group in enumerate(groups):
        own(talk, node, ALL, group)
        talk.finish()
        assert talk.parts_sent(FORM, group) == [(node, 1 - node, index) for index in ALL]
    assert [has(talk, node, group) for node in (0, 1) for group in groups] == [list(ALL)] * 4


@pytest.mark.parametrize("asks", list(Asking))
def test_a_message_in_three_places_comes_together_in_all(asks):
    """go: three peers with distributed partial data."""
    form = counted_parts(claims=Bitlists())
    talk = Talk([PartsExchange(form, asks=asks) for _ in range(3)])
    for node, parts in enumerate([(0, 3, 6), (1, 4, 7), (2, 5)]):
        own(talk, node, parts)
    talk.finish()
    assert sorted(node for node, _ in talk.wholes) == [0, 1, 2]
    assert {whole for _, whole in talk.wholes} == {FORM.encode(GROUP, counted(GROUP, ALL))}
    sent = talk.parts_sent(form, GROUP)
    assert len(sent) == 16 if asks is Asking.ONE else len(sent) >= 16


def test_one_of_three_has_all_and_pushes_it_and_the_others_pass_on_what_is_new():
    """go: three peers. peer 1 has all data and eager pushes. Receivers eager push new content."""
    talk = Talk([PartsExchange(FORM, eager=True) for _ in range(3)])
    for node, parts in enumerate([ALL, (), ()]):
        own(talk, node, parts)
    talk.finish()
    assert [has(talk, node) for node in range(3)] == [list(ALL)] * 3
    assert sorted(node for node, _ in talk.wholes) == [0, 1, 2]


def test_no_peer_asks_for_what_it_has():
    """One announcement each way and nothing else, however often the group is published again."""
    talk = talk_of(2)
    own(talk, 0, range(4))
    own(talk, 1, range(4))
    talk.finish()
    assert [(partial.parts, partial.metadata) for _, _, partial in talk.sent] == [(None, b"\x0f")] * 2
    talk.publish(0, PublishPartial(TOPIC, GROUP))
    assert talk.waiting() == []


def test_who_does_not_request_parts_is_sent_none_and_gives_all():
    talk = talk_of(2, supports=[0])
    own(talk, 0, ALL)
    own(talk, 1, ())
    talk.finish()
    assert talk.wholes == [(0, FORM.encode(GROUP, counted(GROUP, ALL))), (1, FORM.encode(GROUP, counted(GROUP, ALL)))]
    assert {hearer for _, hearer, _ in talk.parts_sent(FORM, GROUP)} == {1}


def test_an_eager_source_needs_no_question():
    """Its parts go out with the first RPC; without, the metadata of both goes first."""
    talk = Talk([PartsExchange(FORM, eager=True), PartsExchange(FORM)])
    own(talk, 0, ALL)
    assert [(partial.parts is not None, partial.metadata) for _, _, partial in talk.sent] == [(True, b"\xff")]
    talk.finish()
    assert has(talk, 1) == list(ALL)
    assert len(talk.parts_sent(FORM, GROUP)) == 8


def test_eager_sources_push_nothing_for_gossip():
    exchange = PartsExchange(FORM, eager=True)
    exchange.add(TOPIC, GROUP, counted(GROUP, ALL))
    said = exchange.parts_for(TOPIC, GROUP, PartialPeer(1, True, True))
    assert (said.parts, said.metadata) == (None, b"\xff")


@st.composite
def networks(draw):
    """A connected network, and who has which parts at the start: together they have some, or all."""
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
def test_in_any_network_and_order_everybody_gets_everything(network, data, claims, eager, asks):
    links, starts = network
    form = counted_parts(8, 8, claims)
    talk = Talk([PartsExchange(form, eager=eager, asks=asks) for _ in starts], links)
    for node, parts in enumerate(starts):
        talk.follow(node, talk.applications[node].add(TOPIC, GROUP, counted(GROUP, parts, 8)))
    talk.finish(lambda waiting: data.draw(st.sampled_from(waiting)))
    everything = sorted(set().union(*starts))
    assert [has(talk, node) for node in range(len(starts))] == [everything] * len(starts)
    sent = talk.parts_sent(form, GROUP)
    assert max(Counter(sent).values(), default=1) == 1
    if asks is Asking.ONE and isinstance(claims, Bitlists) and not eager:
        assert len(sent) == sum(len(everything) - len(parts) for parts in starts)
    wholes = range(len(starts)) if len(everything) == 8 else range(0)
    assert Counter(node for node, _ in talk.wholes) == dict.fromkeys(wholes, 1)
    assert all(partial.parts is not None or partial.metadata is not None for _, _, partial in talk.sent)
    assert {useful for _, _, useful in talk.feedback} <= {True}


@pytest.mark.parametrize("claims", [Bitmap(), Bitlists()])
@pytest.mark.parametrize("asks", Asking)
def test_talk_of_what_no_peer_has_comes_to_an_end(asks, claims):
    """With bitmaps, who asks one peer for each part took its own silence about a part for news, and so for ever."""
    form = counted_parts(8, 8, claims)
    for seed in range(50):
        random = Random(seed)
        talk = Talk([PartsExchange(form, asks=asks) for _ in range(4)], [(1, 0), (2, 0), (3, 0)])
        for node in range(4):
            parts = set(random.sample(range(7), random.randrange(7)))
            talk.follow(node, talk.applications[node].add(TOPIC, GROUP, counted(GROUP, parts, 8)))
        for _ in range(1000):
            if not (waiting := talk.waiting()):
                break
            talk.deliver(random.choice(waiting))
        assert not talk.waiting()


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
def test_what_is_not_of_this_form_is_counted_and_changes_nothing(partial):
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
def test_nothing_that_a_peer_says_raises(group, parts, metadata, last_received, claims, asks):
    exchange = PartsExchange(counted_parts(4, 8, claims), asks=asks)
    exchange.received(Partial(TOPIC, group, parts, metadata), 3)
    exchange.parts_for(TOPIC, group, PartialPeer(3, True, False, last_received, last_received, None))
    exchange.reminded(TOPIC, group)
    exchange.message_received(TOPIC, group)


def test_who_repeats_a_part_gets_no_credit_and_no_second_answer():
    exchange = PartsExchange(FORM)
    partial = Partial(TOPIC, GROUP, FORM.encode(GROUP, counted(GROUP, [2])), None)
    assert exchange.received(partial, 3).events == (
        PartialFeedback(3, TOPIC, useful=True),
        PublishPartial(TOPIC, GROUP),
    )
    assert exchange.received(partial, 3).events == (PublishPartial(TOPIC, GROUP, (3,)),)


def test_what_is_known_beforehand_is_there_when_a_group_is_first_seen():
    """Seven of eight parts came by another way; peers get metadata, and one part is requested."""
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


def test_what_is_remembered_of_senders_is_bounded():
    """Nothing is kept about further peers: they may be sent a part that they have, and take no memory."""
    exchange = PartsExchange(FORM)
    exchange.add(TOPIC, GROUP, counted(GROUP, [0]))
    partial = Partial(TOPIC, GROUP, FORM.encode(GROUP, counted(GROUP, [0])), None)
    for peer in range(300):
        exchange.received(partial, peer)
    sent = [exchange.parts_for(TOPIC, GROUP, PartialPeer(peer, True, False, b"\x00")).parts for peer in range(300)]
    assert [parts is None for parts in sent] == [True] * MAX_SENDERS + [False] * (300 - MAX_SENDERS)


def test_a_full_message_gives_all_its_parts_and_is_not_said_again():
    talk = talk_of(2)
    whole = FORM.encode(GROUP, counted(GROUP, ALL))
    talk.follow(0, talk.applications[0].message_received(TOPIC, whole))
    own(talk, 1, (0,))
    talk.finish()
    assert talk.wholes == [(1, whole)]
    assert talk.applications[0].message_received(TOPIC, whole) == Outcome()
    assert talk.applications[0].message_received(TOPIC, whole[:-1]) == Outcome()
    assert talk.applications[0].invalid == 1


def test_parts_of_ones_own_must_be_right():
    exchange = PartsExchange(FORM)
    for wrong in ({0: bytes(1024)}, {0: b"short"}, {8: bytes(1024)}):
        with pytest.raises(InvalidParts):
            exchange.add(TOPIC, GROUP, wrong)


def test_a_peer_that_wants_less_is_sent_no_more():
    """Two bitlists tell lacking from wanting, as Ethereum's columns do."""
    claims = Bitlists()
    form = counted_parts(8, 8, claims)
    exchange = PartsExchange(form)
    exchange.add(TOPIC, GROUP, counted(GROUP, ALL, 8))
    last_received = bytes([8, 0, 0, 0, 10, 0, 0, 0, 0b0001, 1, 0b0110, 1])
    said = exchange.parts_for(TOPIC, GROUP, PartialPeer(1, True, False, last_received))
    assert sorted(form.decode(GROUP, said.parts or b"")) == [1, 2]
    assert said.metadata == bytes([8, 0, 0, 0, 10, 0, 0, 0, 0xFF, 1, 0, 1])


def test_parts_of_any_number_and_size():
    form = EqualParts(count=11, part_bytes=3, group_bytes=2)
    parts = {0: b"abc", 9: b"xyz"}
    assert form.encode(b"gr", parts) == b"\x01\x02abcxyzgr"
    assert form.decode(b"gr", b"\x01\x02abcxyzgr") == parts
    with pytest.raises(InvalidParts):
        form.decode(b"gr", b"\x01\x08abcxyzgr")
