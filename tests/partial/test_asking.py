"""Requests for each missing part from one peer that offers it, and from another peer when the part does not come."""

from __future__ import annotations

from exchange_network import TOPIC, ExchangeNetwork
from hypothesis import given, settings
from hypothesis import strategies as st

from hearsay.partial import (
    Asking,
    Bitlists,
    Bitmap,
    Claim,
    Partial,
    PartialPeer,
    PartsExchange,
    counted,
    counted_parts,
    group_named,
)
from hearsay.partial.exchange import MAX_GROUPS, MAX_OFFERS, Asks

FORM = counted_parts(8, 8, Bitlists())
GROUP = group_named(7)
ALL = 0b1111_1111


def create_exchange(**given):
    return PartsExchange(FORM, asks=Asking.ONE, **given)


def claim_message(has, wants=0):
    return Partial(TOPIC, GROUP, None, FORM.encode_claim(GROUP, Claim(has, wants)))


def requested_parts(exchange, peer):
    metadata = exchange.parts_for(TOPIC, GROUP, PartialPeer(peer, True, False)).metadata
    return FORM.decode_claim(GROUP, metadata).wants


def test_the_first_peer_that_offers_a_part_is_asked_for_it():
    exchange = create_exchange()
    exchange.received(claim_message(0b0000_0111), "p")
    exchange.received(claim_message(0b0001_1110), "q")
    assert [requested_parts(exchange, peer) for peer in ("p", "q", "r")] == [0b0000_0111, 0b0001_1000, 0]


def test_metadata_are_two_bitlists_as_in_ethereums_columns():
    """Bits of a part: 00 is neither held nor wanted, 01 wanted, 10 held (ethereum/consensus-specs)."""
    exchange = create_exchange()
    exchange.add(TOPIC, GROUP, counted(GROUP, [0], 8))
    exchange.received(claim_message(0b11), "p")
    sent = [exchange.parts_for(TOPIC, GROUP, PartialPeer(peer, True, False)).metadata for peer in ("p", "q")]
    start = bytes([8, 0, 0, 0, 10, 0, 0, 0])
    assert sent == [start + bytes([0b01, 1, 0b10, 1]), start + bytes([0b01, 1, 0, 1])]


def test_no_peer_is_asked_before_it_offers_parts():
    network = ExchangeNetwork([create_exchange(), create_exchange()])
    network.apply(0, network.applications[0].add(TOPIC, GROUP, {}))
    assert network.metadata_sent(0, 1) == [FORM.encode_claim(GROUP, Claim(0, 0))]
    network.deliver_all()
    network.apply(1, network.applications[1].add(TOPIC, GROUP, counted(GROUP, range(8), 8)))
    network.deliver_all()
    assert network.metadata_sent(0, 1)[1:] == [FORM.encode_claim(GROUP, Claim(0, ALL))]
    assert len(network.parts_sent(FORM, GROUP)) == 8


def test_after_a_heartbeat_without_an_answer_another_peer_is_asked_instead():
    network = ExchangeNetwork([create_exchange(), create_exchange(), create_exchange()], links=[(0, 1), (0, 2)])
    for node in (1, 2):
        network.apply(node, network.applications[node].add(TOPIC, GROUP, counted(GROUP, range(8), 8)))
    network.deliver((1, 0))
    network.deliver((2, 0))
    network.lose((0, 1))  # the question
    network.deliver_all()
    assert network.parts_sent(FORM, GROUP) == []
    network.beat(GROUP)
    assert network.waiting() == []
    network.beat(GROUP)
    assert [FORM.decode_claim(GROUP, network.metadata_sent(0, peer)[-1]).wants for peer in (1, 2)] == [0, ALL]
    network.deliver_all()
    assert {sender for sender, receiver, _ in network.parts_sent(FORM, GROUP) if receiver == 0} == {2}
    assert [node for node, _ in network.wholes] == [1, 2, 0]


def test_parts_that_did_not_come_are_requested_from_the_peers_asked_for_fewest():
    asks = Asks()
    asks.offered("p", 0b1111, ALL)
    asks.offered("q", 0b1_0000 | 0b11, ALL)
    asks.offered("r", 0b11, ALL)
    asks.arrived(0b1100)
    assert (asks.beat(), asks.beat()) == ([], ["p", "q", "r"])
    assert [asks.requested_from(peer) for peer in ("p", "q", "r")] == [0, 0b10, 0b01]


def test_parts_that_no_other_peer_offers_are_requested_when_offered_again():
    asks = Asks()
    asks.offered("p", 0b1, ALL)
    assert [asks.beat(), asks.beat(), asks.beat()] == [[], ["p"], []]
    assert asks.requested_from("p") == 0
    asks.offered("p", 0b1, ALL)
    assert asks.requested_from("p") == 0b1


def test_a_whole_message_ends_all_requests():
    exchange = create_exchange()
    exchange.received(claim_message(ALL), "p")
    assert requested_parts(exchange, "p") == ALL
    exchange.message_received(TOPIC, FORM.whole(GROUP, counted(GROUP, range(8), 8)))
    assert requested_parts(exchange, "p") == 0
    assert exchange.reminded(TOPIC, GROUP).events == ()


def test_state_about_offers_of_peers_is_bounded():
    """Groups without parts are removed before groups with parts."""
    exchange = create_exchange(max_groups=2)
    exchange.add(TOPIC, GROUP, counted(GROUP, [0], 8))
    exchange.received(claim_message(ALL), "p")
    for number in range(100, 200):
        metadata = FORM.encode_claim(group_named(number), Claim(ALL, 0))
        exchange.received(Partial(TOPIC, group_named(number), None, metadata), "attacker")
    assert requested_parts(exchange, "p") == ALL & ~1
    assert len(exchange._asks) == 2
    asks = Asks()
    for peer in range(2 * MAX_OFFERS):
        asks.offered(peer, 1 << peer % 8, ALL)
    assert len(asks._offers) == MAX_OFFERS < MAX_GROUPS


def test_with_bitmaps_messages_become_whole_although_all_peers_send_all_parts():
    """A bitmap cannot request single parts, so all peers send all missing parts. The message is whole once."""
    form = counted_parts(8, 8, Bitmap())
    network = ExchangeNetwork([PartsExchange(form, asks=Asking.ONE) for _ in range(3)])
    for node in (1, 2):
        network.apply(node, network.applications[node].add(TOPIC, GROUP, counted(GROUP, range(8), 8)))
    network.deliver_all()
    assert [node for node, _ in network.wholes] == [1, 2, 0]


OFFERS = st.tuples(st.just("offered"), st.sampled_from("pqrs"), st.integers(0, ALL))
STEPS = st.lists(
    OFFERS | st.tuples(st.just("arrived"), st.integers(0, ALL)) | st.tuples(st.just("beat")), max_size=40
)


@settings(max_examples=300)
@given(STEPS)
def test_each_part_is_requested_from_at_most_one_peer(steps):
    asks, held, offers = Asks(), 0, {}
    for step, *given_ in steps:
        match step, given_:
            case "offered", [peer, has]:
                asks.offered(peer, has, ALL & ~held)
                offers[peer] = has
            case "arrived", [parts]:
                held |= parts
                asks.arrived(parts)
            case _:
                before = {peer: asks.requested_from(peer) for peer in "pqrs"}
                changed = asks.beat()
                assert {peer for peer in "pqrs" if asks.requested_from(peer) != before[peer]} <= set(changed)
        asked = [asks.requested_from(peer) for peer in "pqrs"]
        assert sum(parts.bit_count() for parts in asked) == (asked[0] | asked[1] | asked[2] | asked[3]).bit_count()
        assert not any(parts & held for parts in asked)


def test_no_peer_is_asked_for_ever():
    """Each of four peers that offer a part and do not send it is asked once, for two heartbeats."""
    asks = Asks()
    for peer in "pqrs":
        asks.offered(peer, 1, ALL)
    asked = []
    for _ in range(10):
        asked += [peer for peer in "pqrs" if asks.requested_from(peer)]
        asks.beat()
    assert asked == ["p", "p", "q", "q", "r", "r", "s", "s"]
