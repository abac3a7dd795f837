"""Slots that peers share: each peer's part, the order of waiting peers, and that no slot is lost."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from hearsay.node.verification import FairSlots

PEERS = (b"one", b"two", b"three", b"four", b"five")


class RecordedSlots:
    """Slots, the work that has started, and the number of slots of each peer."""

    def __init__(self, count):
        self.started = []
        self.running = Counter()
        self.slots = FairSlots(count, self._start)

    def _start(self, peer, work):
        self.started.append((peer, work))
        self.running[peer] += 1

    def leave(self, peer):
        self.running[peer] -= 1
        self.slots.leave(peer)


def test_a_peer_that_takes_all_it_can_leaves_as_much_as_it_has():
    for flooders, each in ((1, 32), (2, 22), (3, 16), (4, 13)):
        held = RecordedSlots(64)
        for number in range(100):
            for peer in PEERS[:flooders]:
                held.slots.enter(peer, number)
        assert max(held.running.values()) <= each
        before = len(held.started)
        held.slots.enter(b"newcomer", 0)
        assert held.started[before:] == [(b"newcomer", 0)]


def test_free_slots_go_round():
    held = RecordedSlots(1)
    for number in range(3):
        for peer in PEERS[:3]:
            held.slots.enter(peer, number)
    while held.running.total():
        held.leave(held.started[-1][0])
    assert [peer for peer, _ in held.started[1:]] == [b"two", b"three", b"one"] * 2 + [b"two", b"three"]


def test_what_is_withdrawn_is_not_started():
    held = RecordedSlots(1)
    for number in range(3):
        held.slots.enter(b"one", number)
    held.slots.withdraw(b"one", 1)
    held.slots.withdraw(b"two", 1)
    held.leave(b"one")
    assert held.started == [(b"one", 0), (b"one", 2)]


@given(st.integers(1, 6), st.lists(st.tuples(st.sampled_from(PEERS), st.booleans())))
def test_all_is_started_once_and_a_newcomer_waits_only_while_nothing_is_free(count, steps):
    held = RecordedSlots(count)
    entered = []
    for number, (peer, enters) in enumerate(steps):
        if enters:
            held.slots.enter(peer, number)
            entered.append((peer, number))
        elif held.running[peer]:
            held.leave(peer)
        assert held.running.total() <= count
        waiting = {peer for peer, _ in set(entered) - set(held.started)}
        if held.running.total() < count:
            assert all(held.running[peer] for peer in waiting)
    while held.running.total():
        held.leave(next(iter(+held.running)))
    assert sorted(held.started) == sorted(entered)
