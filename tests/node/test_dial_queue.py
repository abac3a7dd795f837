"""The order, bounds and rates of dials; the test sets the clock."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.rates import Rate
from hearsay.node.meeting.dial_queue import DialLimits, DialQueue


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def peer(number):
    return b"peer" + number.to_bytes(2, "big")


def at(*places):
    return tuple(Multiaddr.parse(f"/ip4/10.0.{place}.1/tcp/4001") for place in places)


def queue(**limits):
    made = DialQueue(Clock(), DialLimits(**limits))
    return made, made._now_s


def begin_all(dials):
    found = []
    while (planned := dials.next()) is not None:
        found.append(planned)
    return found


def numbers(planned):
    return [int.from_bytes(one.peer[4:], "big") for one in planned]


def test_who_finds_no_place_waits_and_comes_later():
    dials, _ = queue(at_once=2)
    for number in range(5):
        assert dials.add(peer(number), at(number), "a") is None
    first = begin_all(dials)
    assert numbers(first) == [0, 1]
    assert len(dials) == 3
    dials.ended(first[0], True)
    assert numbers(begin_all(dials)) == [2]


def test_sources_take_turns():
    dials, _ = queue()
    for number in range(10):
        dials.add(peer(number), at(number), "many")
    dials.add(peer(50), at(50), "few")
    dials.add(peer(60), at(60), "few too")
    assert set(numbers([dials.next() for _ in range(3)])) == {0, 50, 60}


def test_a_source_has_its_share_of_the_places():
    dials, _ = queue(at_once=4, of_source=3)
    for number in range(10):
        dials.add(peer(number), at(number), "many")
    assert numbers(begin_all(dials)) == [0, 1, 2]
    dials.add(peer(50), at(50), "few")
    assert numbers(begin_all(dials)) == [50]


def test_a_network_that_says_nothing_keeps_its_share_of_the_places_only():
    """Forty peers at one address with many ports are added before one at another address."""
    dials, _ = queue(of_address=8)
    for number in range(40):
        dials.add(peer(number), (Multiaddr.parse(f"/ip4/10.0.7.1/tcp/{4001 + number}"),), "a")
    dials.add(peer(50), at(50), "a")
    assert numbers(begin_all(dials)) == [*range(8), 50]


def test_names_that_are_looked_up_have_few_places_and_come_last():
    dials, _ = queue(of_names=2)
    for number in range(10):
        named = Multiaddr.parse(f"/dns4/host-{number}.example/tcp/4001")
        dials.add(peer(number), (named, *(at(number) if number > 7 else ())), "a")
    planned = begin_all(dials)
    assert numbers(planned) == [0, 1, 8, 9]
    assert planned[2].addresses == at(8)
    dials.ended(planned[0], True)
    dials.ended(planned[1], True)
    assert numbers(begin_all(dials)) == [2, 3]


def test_a_peer_with_names_is_tried_at_its_other_addresses_first():
    dials, _ = queue()
    named = Multiaddr.parse("/dns4/host.example/tcp/4001")
    dials.add(peer(0), (named, *at(1, 2)), "a")
    assert dials.next().addresses == (*at(1, 2), named)


def test_a_peer_is_tried_at_its_addresses_where_there_is_room():
    dials, clock = queue(of_address=1)
    dials.add(peer(0), at(7), "a")
    dials.add(peer(1), at(7, 8), "a")
    first, second = begin_all(dials)
    assert second.addresses == at(8)
    dials.ended(second, False)
    dials.ended(first, True)
    clock.now += 60
    assert dials.next().addresses == at(7, 8)


def test_what_waits_is_bounded_for_a_source_and_in_all():
    dials, _ = queue(at_once=0, waiting=6, waiting_of_source=4)
    assert [dials.add(peer(number), at(number), "many") for number in range(5)] == [None] * 4 + [peer(4)]
    assert [dials.add(peer(number), at(number), "few") for number in (50, 51)] == [None] * 2
    assert dials.add(peer(60), at(60), "new") == peer(3)
    assert len(dials) == 6


def test_a_peer_that_failed_is_tried_once_more_later_with_more_patience():
    dials, clock = queue(first_try_s=8, second_try_s=24, rest_s=15)
    dials.add(peer(0), at(0), "a")
    first = dials.next()
    dials.ended(first, False)
    assert dials.next() is None
    assert 15 <= dials.due_in_s <= 22.5
    clock.now += 22.5
    assert dials.due_in_s is None
    second = dials.next()
    assert (first.patience_s, second.patience_s) == (8, 24)
    dials.ended(second, False)
    clock.now += 10_000
    assert dials.next() is None


def test_second_tries_leave_room_for_first_ones():
    dials, clock = queue(at_once=10, second_tries=2)
    for number in range(6):
        dials.add(peer(number), at(number), "a")
    for planned in begin_all(dials):
        dials.ended(planned, False)
    clock.now += 60
    assert len(begin_all(dials)) == 2
    for number in range(20, 28):
        dials.add(peer(number), at(number), "a")
    assert len(begin_all(dials)) == 8


def test_who_failed_is_not_dialled_at_once_however_often_it_is_named():
    dials, clock = queue(rest_s=15, longest_rest_s=600)
    waits = []
    for _ in range(8):
        while dials.add(peer(0), at(0), "a") is not None:
            clock.now += 1
        planned = dials.next()
        while planned is None:
            clock.now += 1
            planned = dials.next()
        waits.append(clock.now)
        dials.ended(planned, False)
    gaps = [later - earlier for earlier, later in pairwise(waits)]
    assert gaps[0] >= 15
    assert all(gap >= 30 for gap in gaps[1:])
    assert max(gaps) <= 901


def test_news_of_where_a_peer_is_make_it_worth_another_try():
    dials, _ = queue()
    dials.add(peer(0), at(0), "a")
    dials.ended(dials.next(), False)
    assert dials.add(peer(0), at(1), "a") == peer(0)
    dials.forgive(peer(0))
    assert dials.add(peer(0), at(1), "a") is None
    assert dials.next().addresses == at(1)


def test_remembered_failures_are_bounded():
    dials, _ = queue(failures=10)
    for number in range(50):
        dials.add(peer(number), at(number), "a")
        dials.ended(dials.next(), False)
    assert len(dials._failures) == 10


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 4), st.sampled_from("abc"), st.integers(0, 2)), max_size=150
    )
)
def test_shares_hold_whatever_happens_and_no_peer_is_lost(steps):
    dials, clock = queue(
        at_once=6, of_source=4, of_address=2, second_tries=2, waiting=12, waiting_of_source=6, rest_s=3
    )
    working = []
    for number, place, source, what in steps:
        clock.now += 1
        if what < 2:
            dials.add(peer(number), at(place, place + what), source)
        elif working:
            dials.ended(working.pop(number % len(working)), number % 3 == 0)
        working += begin_all(dials)
        assert len(working) <= 6
        for kind in {one.source for one in working}:
            assert sum(one.source == kind for one in working) <= 4
        for group in {group for one in working for group in one.groups}:
            assert sum(group in one.groups for one in working) <= 2
        assert len(dials) <= 12
        assert len({one.peer for one in working}) == len(working)
    while working:
        dials.ended(working.pop(), True)
        working += begin_all(dials)
    clock.now += 1000
    while (planned := dials.next()) is not None:
        dials.ended(planned, True)
    assert len(dials) == 0


def test_dials_of_an_address_have_a_rate():
    """Dials that end at once leave places free, but peers cannot make a node flood an address."""
    dials, clock = queue(address_rate=Rate(4, 2.0))
    for number in range(40):
        dials.add(peer(number), (Multiaddr.parse(f"/ip4/10.0.7.1/tcp/{4001 + number}"),), f"source {number % 4}")
    dials.add(peer(50), at(50), "other")
    made = []
    for _ in range(20):
        while (planned := dials.next()) is not None:
            made.append(planned.peer)
            dials.ended(planned, True)
        if dials.due_in_s is None:
            break
        assert dials.due_in_s == 0.5
        clock.now += dials.due_in_s
    assert peer(50) in made[:5]
    assert len(made) == 5 + 19


def test_all_dials_have_a_rate():
    dials, clock = queue(rate=Rate(3, 1.0))
    for number in range(10):
        dials.add(peer(number), at(number), f"source {number}")
    for planned in (first := begin_all(dials)):
        dials.ended(planned, True)
    assert (len(first), dials.due_in_s) == (3, 1.0)
    clock.now += 1
    assert len(begin_all(dials)) == 1


def test_an_address_that_has_to_wait_is_looked_at_once_for_all_its_peers():
    dials, clock = queue(address_rate=Rate(1, 1.0), waiting_of_source=1024)
    for number in range(1000):
        dials.add(peer(number), (Multiaddr.parse(f"/ip4/10.0.7.1/tcp/{4001 + number}"),), "source")
    assert len(begin_all(dials)) == 1
    asked = []
    dials._now_s = dials._address_rates._now_s = lambda: asked.append(1) or clock.now
    assert dials.next() is None
    assert dials.due_in_s == 1.0
    assert len(asked) < 10
