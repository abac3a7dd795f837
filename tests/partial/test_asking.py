"""Each lacking part is asked of one peer that offers it, and of another when it does not come."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from talk import TOPIC, Talk

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


def asking(**given):
    return PartsExchange(FORM, asks=Asking.ONE, **given)


def said(has, wants=0):
    return Partial(TOPIC, GROUP, None, FORM.encode_claim(GROUP, Claim(has, wants)))


def wants_of(exchange, peer):
    metadata = exchange.parts_for(TOPIC, GROUP, PartialPeer(peer, True, False)).metadata
    return FORM.decode_claim(GROUP, metadata).wants


def test_who_offers_first_is_asked_and_others_for_the_rest():
    exchange = asking()
    exchange.received(said(0b0000_0111), "p")
    exchange.received(said(0b0001_1110), "q")
    assert [wants_of(exchange, peer) for peer in ("p", "q", "r")] == [0b0000_0111, 0b0001_1000, 0]


def test_metadata_are_two_bitlists_as_in_ethereums_columns():
    """00: neither there nor wanted, 01: wanted, 10: there (ethereum/consensus-specs, partial columns)."""
    exchange = asking()
    exchange.add(TOPIC, GROUP, counted(GROUP, [0], 8))
    exchange.received(said(0b11), "p")
    said_to = [exchange.parts_for(TOPIC, GROUP, PartialPeer(peer, True, False)).metadata for peer in ("p", "q")]
    start = bytes([8, 0, 0, 0, 10, 0, 0, 0])
    assert said_to == [start + bytes([0b01, 1, 0b10, 1]), start + bytes([0b01, 1, 0, 1])]


def test_no_peer_is_asked_before_it_says_that_it_has_something():
    talk = Talk([asking(), asking()])
    talk.follow(0, talk.applications[0].add(TOPIC, GROUP, {}))
    assert talk.metadata_sent(0, 1) == [FORM.encode_claim(GROUP, Claim(0, 0))]
    talk.finish()
    talk.follow(1, talk.applications[1].add(TOPIC, GROUP, counted(GROUP, range(8), 8)))
    talk.finish()
    assert talk.metadata_sent(0, 1)[1:] == [FORM.encode_claim(GROUP, Claim(0, ALL))]
    assert len(talk.parts_sent(FORM, GROUP)) == 8


def test_after_a_whole_heartbeat_in_vain_another_is_asked_and_the_first_no_longer():
    talk = Talk([asking(), asking(), asking()], links=[(0, 1), (0, 2)])
    for node in (1, 2):
        talk.follow(node, talk.applications[node].add(TOPIC, GROUP, counted(GROUP, range(8), 8)))
    talk.deliver((1, 0))
    talk.deliver((2, 0))
    talk.lose((0, 1))  # the question
    talk.finish()
    assert talk.parts_sent(FORM, GROUP) == []
    talk.beat(GROUP)
    assert talk.waiting() == []
    talk.beat(GROUP)
    assert [FORM.decode_claim(GROUP, talk.metadata_sent(0, peer)[-1]).wants for peer in (1, 2)] == [0, ALL]
    talk.finish()
    assert {speaker for speaker, hearer, _ in talk.parts_sent(FORM, GROUP) if hearer == 0} == {2}
    assert [node for node, _ in talk.wholes] == [1, 2, 0]


def test_who_is_asked_for_least_takes_what_another_did_not_send():
    asks = Asks()
    asks.offered("p", 0b1111, ALL)
    asks.offered("q", 0b1_0000 | 0b11, ALL)
    asks.offered("r", 0b11, ALL)
    asks.arrived(0b1100)
    assert (asks.beat(), asks.beat()) == ([], ["p", "q", "r"])
    assert [asks.requested_from(peer) for peer in ("p", "q", "r")] == [0, 0b10, 0b01]


def test_parts_of_no_other_peer_are_not_awaited_and_are_requested_when_offered_again():
    asks = Asks()
    asks.offered("p", 0b1, ALL)
    assert [asks.beat(), asks.beat(), asks.beat()] == [[], ["p"], []]
    assert asks.requested_from("p") == 0
    asks.offered("p", 0b1, ALL)
    assert asks.requested_from("p") == 0b1


def test_a_whole_message_ends_all_asking():
    exchange = asking()
    exchange.received(said(ALL), "p")
    assert wants_of(exchange, "p") == ALL
    exchange.message_received(TOPIC, FORM.whole(GROUP, counted(GROUP, range(8), 8)))
    assert wants_of(exchange, "p") == 0
    assert exchange.reminded(TOPIC, GROUP).events == ()


def test_what_peers_say_takes_no_more_memory_than_there_is_for_it():
    """Groups of which there are no parts give way to each other, before those of which there are some."""
    exchange = asking(max_groups=2)
    exchange.add(TOPIC, GROUP, counted(GROUP, [0], 8))
    exchange.received(said(ALL), "p")
    for number in range(100, 200):
        metadata = FORM.encode_claim(group_named(number), Claim(ALL, 0))
        exchange.received(Partial(TOPIC, group_named(number), None, metadata), "attacker")
    assert wants_of(exchange, "p") == ALL & ~1
    assert len(exchange._asks) == 2
    asks = Asks()
    for peer in range(2 * MAX_OFFERS):
        asks.offered(peer, 1 << peer % 8, ALL)
    assert len(asks._offers) == MAX_OFFERS < MAX_GROUPS


def test_a_bitmap_cannot_say_it_and_everything_comes_all_the_same():
    """All peers send the parts that a bitmap lacks: parts come more than once, and the message is whole once."""
    form = counted_parts(8, 8, Bitmap())
    talk = Talk([PartsExchange(form, asks=Asking.ONE) for _ in range(3)])
    for node in (1, 2):
        talk.follow(node, talk.applications[node].add(TOPIC, GROUP, counted(GROUP, range(8), 8)))
    talk.finish()
    assert [node for node, _ in talk.wholes] == [1, 2, 0]


OFFERS = st.tuples(st.just("offered"), st.sampled_from("pqrs"), st.integers(0, ALL))
STEPS = st.lists(
    OFFERS | st.tuples(st.just("arrived"), st.integers(0, ALL)) | st.tuples(st.just("beat")), max_size=40
)


@settings(max_examples=300)
@given(STEPS)
def test_however_peers_speak_each_part_is_asked_of_one_that_offers_it(steps):
    asks, here, offers = Asks(), 0, {}
    for step, *given_ in steps:
        match step, given_:
            case "offered", [peer, has]:
                asks.offered(peer, has, ALL & ~here)
                offers[peer] = has
            case "arrived", [parts]:
                here |= parts
                asks.arrived(parts)
            case _:
                before = {peer: asks.requested_from(peer) for peer in "pqrs"}
                changed = asks.beat()
                assert {peer for peer in "pqrs" if asks.requested_from(peer) != before[peer]} <= set(changed)
        asked = [asks.requested_from(peer) for peer in "pqrs"]
        assert sum(parts.bit_count() for parts in asked) == (asked[0] | asked[1] | asked[2] | asked[3]).bit_count()
        assert not any(parts & here for parts in asked)


def test_no_peer_is_asked_for_ever():
    """Four peers that promise and never send are asked once each."""
    asks = Asks()
    for peer in "pqrs":
        asks.offered(peer, 1, ALL)
    asked = []
    for _ in range(10):
        asked += [peer for peer in "pqrs" if asks.requested_from(peer)]
        asks.beat()
    assert asked == ["p", "p", "q", "q", "r", "r", "s", "s"]
