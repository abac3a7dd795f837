"""Turns, allowances and the queue of batches for threads, without sockets and by a clock of the test."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from hearsay.core.language.rpc import Message
from hearsay.libp2p.rates import SLICE_S, TURN_S, Allowance, Turns
from hearsay.node.verification import Batch, BatchQueue


class World:
    """A clock that advances while work is done, and an event loop whose turns are logged."""

    def __init__(self):
        self.now_s = 0.0
        self.called = deque()
        self.log = []
        self.turns = Turns(lambda: self.now_s, self.called.append)

    def run_once(self):
        self.log.append("loop")
        for _ in range(len(self.called)):
            self.called.popleft()()

    def run(self):
        while self.called:
            self.run_once()


class Worker:
    def __init__(self, world, name, pieces):
        self.world = world
        self.name = name
        self.pieces = deque(pieces)
        self.used_s = 0.0

    def work(self, until_s):
        world = self.world
        while self.pieces and world.now_s < until_s:
            world.now_s += self.pieces.popleft()
            world.log.append(self.name)
        return not self.pieces


def test_who_comes_while_no_peer_waits_begins_at_once():
    world = World()
    for name in "abc":
        world.turns.schedule(Worker(world, name, [SLICE_S / 2]))
    assert world.log == ["a", "b", "c"]
    assert not world.called


def test_many_small_arrivals_give_the_loop_its_turn_too():
    world = World()
    for _ in range(100):
        world.turns.schedule(Worker(world, "a", [TURN_S / 10]))
    assert world.log.count("a") <= 12
    world.run()
    assert world.log.count("a") == 100
    assert world.log.count("loop") >= 9


def test_a_long_worker_lets_others_in_between():
    world = World()
    world.turns.schedule(Worker(world, "long", [SLICE_S / 4] * 400))
    world.turns.schedule(Worker(world, "short", [SLICE_S / 4] * 2))
    world.run()
    place = world.log.index("short")
    assert world.log[:place].count("long") <= 12
    assert world.log.count("long") == 400


@given(st.lists(st.lists(st.floats(0.0001, 0.01), min_size=1, max_size=40), min_size=1, max_size=8))
def test_all_work_is_done_in_fair_turns(jobs):
    world = World()
    longest_s = max(map(max, jobs))
    for number, pieces in enumerate(jobs):
        world.turns.schedule(Worker(world, number, pieces))
    world.run()
    assert [world.log.count(number) for number in range(len(jobs))] == list(map(len, jobs))
    # While two workers wait, one has used at most a slice and what it had begun more than the other.
    used = [0.0] * len(jobs)
    left = list(map(deque, jobs))
    for entry in world.log:
        if entry != "loop":
            used[entry] += left[entry].popleft()
            behind = [used[other] for other in range(len(jobs)) if left[other]]
            assert used[entry] <= min(behind, default=1e9) + SLICE_S + longest_s + 1e-9


def test_many_floods_do_not_hold_up_who_sends_little():
    """Although each flood has waited for longer."""
    world = World()
    for number in range(100):
        world.turns.schedule(Worker(world, f"flood {number}", [SLICE_S / 4] * 400))
    for _ in range(100):
        world.run_once()
    before = len(world.log)
    world.turns.schedule(Worker(world, "honest", [SLICE_S / 4]))
    world.run_once()
    assert world.log[before:].index("honest") <= 8


def test_idle_time_earns_nothing():
    """Otherwise a worker could save idle time, and then hold up all others."""
    world = World()
    idle = Worker(world, "idle", [SLICE_S / 4])
    world.turns.schedule(idle)
    world.turns.schedule(Worker(world, "other", [SLICE_S / 4] * 4000))
    for _ in range(50):
        world.run_once()
    before = len(world.log)
    idle.pieces.extend([SLICE_S / 4] * 40)
    world.turns.schedule(idle)
    world.run_once()
    world.run_once()
    assert "other" in world.log[before:]


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(0, 40)), max_size=60))
def test_no_peer_uses_more_than_the_allowance(uses):
    """A caller that waits as long as it must uses at most the burst, the rate, and one use that exceeds them."""
    allowance = Allowance(10, 20, 0.0)
    now_s = used = 0.0
    for pause_s, count in uses:
        now_s += pause_s
        now_s += allowance.wait_s(now_s)
        assert allowance.wait_s(now_s + 1e-9) == 0
        allowance.left -= count
        used += count
        assert used - count <= 20 + 10 * now_s + 1e-6


def message(number, data=b""):
    return Message(bytes([number]), "t", data, encoded=bytes([number]) + data)


@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=4), max_size=12), st.randoms(use_true_random=False))
def test_every_batch_is_checked_and_nothing_at_two_places_at_once(batches, chance):
    queue = BatchQueue(2, lambda _: True)
    waiting = [Batch([message(number) for number in numbers], print) for numbers in batches]
    for batch in waiting:
        queue.waiting.append(batch)
    running, done = [], []
    while len(done) < len(waiting):
        while (batch := queue.next()) is not None:
            running.append(batch)
        assert 0 < len(running) <= 2
        if len(running) == 2:
            one, two = ({each.encoded for each in batch.messages} for batch in running)
            assert not one & two
        ended = running.pop(chance.randrange(len(running)))
        queue.finish(ended)
        done.append(ended)
    assert set(map(id, done)) == set(map(id, waiting))


def test_the_batch_that_waits_longest_is_next():
    queue = BatchQueue(1, lambda _: True)
    batches = [Batch([message(number)], print) for number in range(3)]
    for batch in batches:
        queue.waiting.append(batch)
    first = queue.next()
    assert first is batches[0]
    assert queue.next() is None
    queue.finish(first)
    assert queue.next() is batches[1]


def test_a_copy_waits_for_the_same_bytes_and_a_forged_one_holds_up_no_peer():
    queue = BatchQueue(2, lambda _: True)
    true, copy, forged = (Batch([message(1, data)], print) for data in (b"true", b"true", b"forged"))
    for batch in (true, copy, forged):
        queue.waiting.append(batch)
    assert queue.next() is true
    assert queue.next() is forged
    queue.finish(forged)
    assert queue.next() is None
    queue.finish(true)
    assert queue.next() is copy


def test_what_another_copy_has_brought_meanwhile_is_not_checked():
    seen = set()
    queue = BatchQueue(1, lambda each: each.id not in seen)
    queue.waiting.append(Batch([message(1), message(2)], print))
    seen.add(message(1).id)
    batch = queue.next()
    assert [each.id for each in batch.messages] == [message(2).id]


def test_a_batch_of_a_peer_that_is_gone_is_not_checked():
    queue = BatchQueue(1, lambda _: True)
    gone = Batch([message(1)], print)
    queue.waiting.append(gone)
    queue.remove(gone)
    assert queue.next() is None
