"""The address book: newest signed records, unsigned claims in addition to them, and bounds for each source."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import peer_id_of
from hearsay.libp2p.rendezvous import PeerRecord, seal_record
from hearsay.node.meeting.address_book import AddressBook, BookLimits

KEYS = [PrivateKey.from_seed(bytes([number]) * 32) for number in range(40)]
PEERS = [peer_id_of(key.public) for key in KEYS]


def address(place, port=4001):
    return Multiaddr.parse(f"/ip4/10.0.0.{place}/tcp/{port}")


def sealed(who, sequence=1, *addresses):
    return seal_record(KEYS[who], PeerRecord(PEERS[who], sequence, addresses or (address(who),)))


RECORDS = [sealed(who) for who in range(len(KEYS))]


def book(**limits):
    return AddressBook(lambda address: address.tcp_endpoint is not None, BookLimits(**limits))


def dialled_addresses(known, who):
    return [str(address).partition("/p2p")[0] for address in known.addresses(PEERS[who])]


def test_an_older_record_after_a_newer_one_changes_nothing():
    known = book()
    assert known.learn(sealed(0, 2, address(2)), "a") == (PEERS[0], True)
    newest = known.record(PEERS[0])
    for again in (sealed(0, 1, address(1)), sealed(0, 2, address(3))):
        assert known.learn(again, "b") == (PEERS[0], False)
        assert dialled_addresses(known, 0) == ["/ip4/10.0.0.2/tcp/4001"]
        assert known.record(PEERS[0]) == newest
    assert known.learn(sealed(0, 3, address(4)), "b") == (PEERS[0], True)
    assert dialled_addresses(known, 0) == ["/ip4/10.0.0.4/tcp/4001"]


def test_a_forged_newer_record_changes_nothing():
    known = book()
    known.learn(RECORDS[0], "a")
    forged = bytearray(sealed(0, 9, address(9)))
    forged[-1] ^= 1
    assert known.learn(bytes(forged), "a") is None
    assert known.record(PEERS[0]) == RECORDS[0]


def test_claims_stand_next_to_what_the_peer_has_signed():
    known = book()
    known.claim(PEERS[0], (address(7), address(8)), "b")
    assert dialled_addresses(known, 0) == ["/ip4/10.0.0.7/tcp/4001", "/ip4/10.0.0.8/tcp/4001"]
    known.learn(sealed(0, 1, address(1), address(2)), "a")
    assert [text[len("/ip4/10.0.0.")] for text in dialled_addresses(known, 0)] == ["1", "7", "2", "8"]
    assert known.record(PEERS[0]) == sealed(0, 1, address(1), address(2))


def test_no_more_than_eight_addresses_of_a_peer_are_dialled():
    known = book()
    known.learn(sealed(0, 1, *(address(place) for place in range(40))), "a")
    known.claim(PEERS[0], tuple(address(place, 1) for place in range(40)), "b")
    assert len(dialled_addresses(known, 0)) == 8


def test_addresses_that_cannot_be_dialled_or_name_another_peer_are_left_out():
    known = book()
    udp = Multiaddr.parse("/ip4/10.0.0.1/udp/1/quic-v1")
    known.claim(PEERS[0], (udp, address(1).with_peer(PEERS[1]), address(2).with_peer(PEERS[0])), "a")
    assert dialled_addresses(known, 0) == ["/ip4/10.0.0.2/tcp/4001"]
    known.claim(PEERS[1], (udp,), "a")
    assert PEERS[1] not in known.peers


def test_a_source_of_many_addresses_displaces_only_its_own():
    known = book(source_peers=5)
    known.learn(RECORDS[0], "honest")
    for who in range(10, 40):
        known.learn(RECORDS[who], "flood")
    assert set(known.peers) == {PEERS[0], *PEERS[35:40]}


def test_when_all_places_are_taken_the_source_with_most_loses_its_oldest():
    known = book(peers=10, source_peers=8)
    for who in range(8):
        known.learn(RECORDS[who], "greatest")
    for who in range(10, 14):
        known.learn(RECORDS[who], f"source {who}")
    assert set(known.peers) == {*PEERS[2:8], *PEERS[10:14]}


def test_naming_a_peer_again_does_not_take_it_from_its_first_source():
    """Otherwise a flood could first take over the entries of others, and then displace them."""
    known = book(source_peers=3)
    known.learn(RECORDS[0], "honest")
    known.learn(sealed(0, 2), "flood")
    for who in range(10, 20):
        known.learn(RECORDS[who], "flood")
    assert PEERS[0] in known.peers


def test_a_peer_that_speaks_of_itself_answers_for_its_place():
    known = book(source_peers=3)
    known.learn(RECORDS[0], "flood")
    known.learn(sealed(0, 2), "its own", sender=PEERS[0])
    for who in range(10, 20):
        known.learn(RECORDS[who], "flood")
    assert known.source(PEERS[0]) == "its own"
    assert PEERS[0] in known.peers


@given(
    st.lists(
        st.tuples(st.integers(0, 39), st.sampled_from("abcd"), st.booleans(), st.booleans()), min_size=30, max_size=80
    )
)
def test_places_are_bounded_and_each_belongs_to_one_source(claims):
    known = book(peers=12, source_peers=5)
    for who, source, signed, by_itself in claims:
        if signed:
            known.learn(RECORDS[who], source, sender=PEERS[who] if by_itself else None)
        else:
            known.claim(PEERS[who], (address(who),), source)
    assert len(known.peers) <= 12
    assert all(0 < len(peers) <= 5 for peers in known._sources.values())
    assert sorted(peer for peers in known._sources.values() for peer in peers) == sorted(known.peers)
    assert all(peer in known._sources[known.source(peer)] for peer in known.peers)
