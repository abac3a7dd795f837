"""Queues of outgoing data are bounded for each peer and together; without room the longest queue loses entries."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from hearsay.core.language.rpc import Control, Graft, Rpc
from hearsay.libp2p.resources import Budget
from hearsay.node.outgoing_queue import ENTRY_BYTES, OutgoingMemory, OutgoingQueue, OutgoingRpc, Priority

RPC_TO_RESEND = Rpc(control=Control(graft=(Graft("news"),)))


def entry(size=1000, priority=Priority.MESSAGE, message_id=None):
    rpc_to_resend = RPC_TO_RESEND if priority is Priority.CONTROL else None
    return OutgoingRpc(priority, bytes(size), 1, rpc_to_resend, (), message_id)


class Peers:
    """Queues that share a memory, and the entries that each has lost."""

    def __init__(self, count, *, each, together, addresses=None):
        self.budget = Budget("outgoing", together)
        self.memory = OutgoingMemory(self.budget)
        self.lost = [[] for _ in range(count)]
        places = addresses or map(str, range(count))
        self.queues = [
            OutgoingQueue(each, self.memory, lost.append, address)
            for lost, address in zip(self.lost, places, strict=True)
        ]


def test_a_frame_for_many_peers_is_counted_once_for_all_and_in_full_for_each():
    peers = Peers(50, each=10_000, together=5_000)
    shared = entry()
    assert all(queue.push(shared) for queue in peers.queues)
    assert peers.budget.used == shared.size
    assert [queue.bytes for queue in peers.queues] == [shared.size] * 50
    for queue in peers.queues[:25]:
        assert queue.take(1) == [shared]
    assert peers.budget.used == shared.size
    for queue in peers.queues[25:]:
        queue.clear()
    assert peers.budget.used == 0
    assert peers.memory.queues == set()


def test_when_all_have_no_room_the_longest_queue_loses():
    peers = Peers(3, each=100_000, together=20_000)
    slow, other, quick = peers.queues
    while not peers.lost[0]:
        slow.push(entry())
    other.push(entry())
    for _ in range(5):
        assert quick.push(entry())
        assert len(quick.take(1 << 20)) == 1
    assert peers.lost[1] == peers.lost[2] == []
    assert len(peers.lost[0]) >= 2
    assert peers.budget.used <= 20_000


def test_queues_of_one_address_count_as_one():
    peers = Peers(10, each=100_000, together=20_000, addresses=["here"] * 8 + ["there", "elsewhere"])
    *many, there, elsewhere = peers.queues
    for _ in range(3):
        there.push(entry())
    while not any(peers.lost):
        for queue in many:
            queue.push(entry())
    for _ in range(3):
        assert elsewhere.push(entry())
    assert peers.lost[8] == peers.lost[9] == []
    assert there.bytes > max(queue.bytes for queue in many)
    for queue in peers.queues:
        queue.clear()
    assert peers.memory._of_address == {}


def test_empty_frames_cost_too():
    peers = Peers(1, each=100 * ENTRY_BYTES, together=1 << 20)
    for _ in range(1_000):
        peers.queues[0].push(entry(0))
    assert len(peers.queues[0]) == 100


def test_control_finds_room_among_ones_own_messages():
    peers = Peers(1, each=100_000, together=10_000)
    (queue,) = peers.queues
    queue.push(entry(100, Priority.GOSSIP))
    while not peers.lost[0]:
        queue.push(entry())
    assert queue.push(entry(200, Priority.CONTROL))
    assert [lost.priority for lost in peers.lost[0]] == [Priority.GOSSIP, Priority.MESSAGE]
    assert queue.take(1)[0].priority is Priority.CONTROL


def test_what_is_withdrawn_does_not_go_and_leaves_the_queues_of_others():
    """Rules: IDONTWANT-4."""
    peers = Peers(2, each=100_000, together=100_000)
    first, other = peers.queues
    copies = [entry(message_id=number) for number in range(5)]
    for copy in copies:
        first.push(copy)
        other.push(copy)
    assert first.withdraw(3) == [copies[3]]
    assert first.withdraw(3) == first.withdraw(7) == []
    assert (len(first), first.bytes) == (4, 4 * copies[0].size)
    assert first.take(1 << 20) == [*copies[:3], copies[4]]
    assert first.withdraw(4) == []
    assert other.take(1 << 20) == copies
    assert peers.budget.used == 0


def test_what_is_withdrawn_does_not_pile_up():
    peers = Peers(1, each=100_000, together=100_000)
    [queue] = peers.queues
    for number in range(1_000):
        queue.push(entry(message_id=number))
        queue.withdraw(number)
        assert len(queue._waiting[Priority.MESSAGE]) <= 2
    assert (len(queue), queue.bytes, queue.take(1)) == (0, 0, [])


operation = st.tuples(
    st.sampled_from(["push", "push", "push to all", "take", "clear", "withdraw"]),
    st.integers(0, 3),
    st.integers(0, 3_000),
    st.sampled_from(Priority),
)


@given(st.lists(operation, max_size=80))
@example([("push", place, 2_500, Priority.MESSAGE) for place in range(4)])
def test_nothing_is_above_its_bound_and_all_is_given_back(operations):
    peers = Peers(4, each=5_000, together=9_000, addresses="aabc")
    waiting = [[] for _ in peers.queues]
    for kind, place, size, priority in operations:
        queue = peers.queues[place]
        if kind == "take":
            for taken in queue.take(1):
                waiting[place].remove(taken)
        elif kind == "clear":
            queue.clear()
            waiting[place].clear()
        elif kind == "withdraw":
            unwanted = [one for one in waiting[place] if one.message_id == size % 3]
            assert queue.withdraw(size % 3) == unwanted
            for one in unwanted:
                waiting[place].remove(one)
        else:
            one = entry(size, priority, size % 3 if priority is Priority.MESSAGE else None)
            for number in range(4) if kind == "push to all" else [place]:
                if peers.queues[number].push(one):
                    waiting[number].append(one)
                else:
                    assert peers.lost[number].pop() is one
            for number, lost in enumerate(peers.lost):
                while lost:
                    waiting[number].remove(lost.pop())
        distinct = {id(one): one.size for entries in waiting for one in entries}
        assert peers.budget.used == sum(distinct.values()) <= 9_000
        for number, entries in enumerate(waiting):
            assert peers.queues[number].bytes == sum(one.size for one in entries) <= 5_000
            assert len(peers.queues[number]) == len(entries)
    for queue in peers.queues:
        queue.clear()
    assert peers.budget.used == 0
